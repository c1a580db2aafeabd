// Walks operands of different shapes by broadcasting: the output's dimensions in order, each operand with a stride per
// dimension, 0 where it is repeated.  Neighbouring dimensions that every operand walks as one become one, so that the
// innermost run is as long as can be.
//
// Internal linkage: compiled once for each instruction set.
#pragma once

#include <cstddef>

namespace alcove::kernels {

inline constexpr size_t kBroadcastRank = 8;

struct BroadcastShape {
  size_t rank;
  size_t dims[kBroadcastRank];
};

namespace {

// A walk with at least one dimension; strides in elements.
template <size_t operands>
struct Walk {
  size_t rank;
  size_t dims[kBroadcastRank];
  size_t strides[operands][kBroadcastRank];
};

// Dimensions of size 1 go, and neighbours are joined where the outer stride is inner stride times inner size for all.
template <size_t operands>
Walk<operands> joined(const BroadcastShape& shape,
                      const size_t (*const (&strides)[operands])[kBroadcastRank]) noexcept {
  Walk<operands> walk{};
  for (size_t d = 0; d < shape.rank; ++d) {
    if (shape.dims[d] == 1) continue;
    bool joins = walk.rank > 0;
    for (size_t o = 0; o < operands && joins; ++o) {
      joins = walk.strides[o][walk.rank - 1] == (*strides[o])[d] * shape.dims[d];
    }
    if (joins) {
      walk.dims[walk.rank - 1] *= shape.dims[d];
    } else {
      walk.dims[walk.rank++] = shape.dims[d];
    }
    for (size_t o = 0; o < operands; ++o) walk.strides[o][walk.rank - 1] = (*strides[o])[d];
  }
  if (walk.rank == 0) {
    walk.rank = 1;
    walk.dims[0] = 1;
  }
  return walk;
}

// Calls run(offsets of the operands, offset in the output) for each innermost run, in the order of the output.
template <size_t operands, typename Run>
void for_runs(const Walk<operands>& walk, Run run) noexcept {
  const size_t last = walk.rank - 1;
  size_t at[kBroadcastRank] = {};
  size_t offsets[operands] = {};
  size_t output = 0;
  for (;;) {
    run(offsets, output);
    output += walk.dims[last];
    size_t d = last;
    while (d > 0) {
      --d;
      for (size_t o = 0; o < operands; ++o) offsets[o] += walk.strides[o][d];
      if (++at[d] < walk.dims[d]) break;
      at[d] = 0;
      for (size_t o = 0; o < operands; ++o) offsets[o] -= walk.strides[o][d] * walk.dims[d];
      if (d == 0) return;
    }
    if (last == 0) return;
  }
}

}  // namespace
}  // namespace alcove::kernels
