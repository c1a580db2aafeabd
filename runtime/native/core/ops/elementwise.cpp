// One element at a time: relu.
#include "core/ops/ops.h"

namespace alcove::ops {

Status check_relu(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat}));
  ALCOVE_TRY(check_like_input(s));
  steps = elements(s.input(0)) * 16;
  return {};
}

Status run_relu(const Call& c) noexcept {
  c.kernels.relu_f32({c.in<float>(0), c.out<float>(0), c.input(0).element_count()});
  return {};
}

}  // namespace alcove::ops
