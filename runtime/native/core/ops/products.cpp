// Matrix products: linear.
#include "core/ops/ops.h"

namespace alcove::ops {

Status check_linear(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight",
                        {.dtypes = kFloat, .rank = 2, .is_constant = true, .layout = Layout::panel16}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat, .rank = 2}));
  const Tensor& weight = s.input(1);
  ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "input", 1, weight.dims[1]));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, s.input(0).dims[0]));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 1, weight.dims[0]));
  steps = Checked(s.input(0).dims[0]) * (weight.size_bytes / sizeof(float));
  return {};
}

Status run_linear(const Call& c) noexcept {
  const Tensor& weight = c.input(1);
  c.kernels.linear_f32(
      {c.in<float>(0), c.in<float>(1), c.out<float>(0), c.input(0).dims[0], weight.dims[0], weight.dims[1]});
  return {};
}

}  // namespace alcove::ops
