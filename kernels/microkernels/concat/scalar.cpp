// One input after the other: each is read in order, the output is written in runs.
#include "kernels/microkernels/concat/concat.h"

#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

void concat_scalar(const Concat& a) noexcept {
  size_t pitch = 0;
  for (size_t i = 0; i < a.count; ++i) pitch += a.run_bytes[i];
  uint8_t* to = a.output;
  for (size_t i = 0; i < a.count; ++i) {
    const size_t run = a.run_bytes[i];
    StridedMove move{};
    move.from = a.inputs[i];
    move.to = to;
    // Runs in units of 4 bytes where all are, so that a concatenation of single elements moves words.
    move.element_bytes = (run | pitch) % 4 == 0 ? 4 : 1;
    move.rank = 2;
    move.dims[0] = a.outer;
    move.dims[1] = run / move.element_bytes;
    move.from_strides[0] = static_cast<int64_t>(move.dims[1]);
    move.from_strides[1] = 1;
    move.to_strides[0] = static_cast<int64_t>(pitch / move.element_bytes);
    move.to_strides[1] = 1;
    move_strided(move);
    to += run;
  }
}

}  // namespace alcove::kernels
