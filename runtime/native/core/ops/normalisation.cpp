// Over rows: softmax.
#include "core/ops/ops.h"

namespace alcove::ops {

Status check_softmax(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat}));
  if (s.input(0).rank == 0) {
    return failure(Code::op_shape, Section::program, "softmax: the input has rank 0, expected 1 or more")
        .in_tensor(s.op.inputs[0]);
  }
  ALCOVE_TRY(check_like_input(s));
  // An exponential and a division take sixteen.
  steps = elements(s.input(0)) * 16;
  return {};
}

Status run_softmax(const Call& c) noexcept {
  const size_t count = c.input(0).dims[c.input(0).rank - 1];
  c.kernels.softmax_f32({c.in<float>(0), c.out<float>(0), c.input(0).element_count() / count, count});
  return {};
}

}  // namespace alcove::ops
