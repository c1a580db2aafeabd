// In order of size: topk.
#include "core/ops/ops.h"

namespace alcove::ops {

Status check_topk(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "values", {.dtypes = kFloat, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.outputs[1], "indices", {.dtypes = set_of({DType::i32}), .rank = 2}));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "input", 0, 1));
  const uint32_t n = s.input(0).dims[1];
  ALCOVE_TRY(check_integer(s, 0, "k", 1, n < kMaxTopk ? n : kMaxTopk));
  const uint64_t k = s.op.attributes[0];
  for (uint8_t i = 0; i < 2; ++i) {
    const uint64_t dims[] = {1, k};
    ALCOVE_TRY(check_shape(s, s.op.outputs[i], i == 0 ? "values" : "indices", dims, 2));
  }
  steps = Checked(n) * k;
  return {};
}

Status run_topk(const Call& c) noexcept {
  c.kernels.topk_f32(
      {c.in<float>(0), c.input(0).dims[1], static_cast<size_t>(c.integer(0)), c.out<float>(0), c.out<int32_t>(1)});
  return {};
}

}  // namespace alcove::ops
