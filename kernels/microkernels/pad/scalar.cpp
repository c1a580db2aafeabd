// From the outside in: the blocks that hold input first, then the margin, made of finished blocks or of the constant.
#include "kernels/microkernels/pad/pad.h"

#include <cstring>

#include "kernels/microkernels/fill/fill.h"

namespace alcove::kernels {

namespace {

// The input position in [0, n) that stands at position `at` of the padded dimension.
size_t find_source(PadMode mode, size_t at, size_t before, size_t n) noexcept {
  if (at < before) {
    const size_t distance = before - at;  // 1 is next to the edge
    if (mode == PadMode::reflect) return distance;
    return mode == PadMode::circular ? n - distance : 0;
  }
  const size_t beyond = at - before - n;  // 0 is next to the edge
  if (mode == PadMode::reflect) return n - 2 - beyond;
  return mode == PadMode::circular ? beyond : n - 1;
}

struct Plan {
  const Pad& pad;
  size_t rank;                        // without the trailing dimensions that aren't padded
  size_t in_block[kMaxMovementRank];  // bytes of one position of dimension d
  size_t out_block[kMaxMovementRank];
};

void fill_block(const Pad& pad, uint8_t* to, size_t bytes) noexcept {
  fill_scalar({to, bytes / pad.element_bytes, pad.element_bytes, pad.bits});
}

void pad_dim(const Plan& plan, size_t d, const uint8_t* from, uint8_t* to) noexcept {
  const Pad& pad = plan.pad;
  const size_t n = pad.dims[d], before = pad.before[d], after = pad.after[d];
  const size_t block = plan.out_block[d];
  uint8_t* middle = to + before * block;
  if (d + 1 == plan.rank) {
    std::memcpy(middle, from, n * block);
  } else {
    for (size_t i = 0; i < n; ++i) pad_dim(plan, d + 1, from + i * plan.in_block[d], middle + i * block);
  }
  if (pad.mode == PadMode::constant) {
    fill_block(pad, to, before * block);
    fill_block(pad, middle + n * block, after * block);
    return;
  }
  const auto copy = [&](size_t at) noexcept {
    std::memcpy(to + at * block, middle + find_source(pad.mode, at, before, n) * block, block);
  };
  for (size_t at = 0; at < before; ++at) copy(at);
  for (size_t at = before + n; at < before + n + after; ++at) copy(at);
}

}  // namespace

void pad_scalar(const Pad& a) noexcept {
  Plan plan = {a, a.rank, {}, {}};
  size_t in_block = a.element_bytes, out_block = a.element_bytes;
  for (size_t d = a.rank; d-- > 0;) {
    plan.in_block[d] = in_block;
    plan.out_block[d] = out_block;
    in_block *= a.dims[d];
    out_block *= a.before[d] + a.dims[d] + a.after[d];
  }
  while (plan.rank > 0 && a.before[plan.rank - 1] == 0 && a.after[plan.rank - 1] == 0) --plan.rank;
  if (plan.rank == 0) {
    std::memcpy(a.output, a.input, in_block);
    return;
  }
  pad_dim(plan, 0, a.input, a.output);
}

}  // namespace alcove::kernels
