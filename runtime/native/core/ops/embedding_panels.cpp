// Rows of a table that shares its bytes with a product.
#include "core/ops/gemm.h"

namespace alcove::ops {

namespace {

constexpr OpCode kOp = OpCode::embedding_panels;
constexpr Integer kRows{kOp, "rows"}, kForm{kOp, "form"}, kGroup{kOp, "group"};

}  // namespace

Status check_embedding_panels(const Subject& s, Checked& cost) {
  using kernels::PanelForm;
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "ids", {.dtypes = kIndices}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat}));
  ALCOVE_TRY(check_integer(s, kRows, "rows", 1, kMaxDimension));
  ALCOVE_TRY(check_integer(s, kForm, "form", 0, kernels::kPanelForms - 1));
  const Tensor& ids = s.input(0);
  const auto form = static_cast<PanelForm>(s.integer(kForm));
  const bool has_groups = form == PanelForm::i4 || form == PanelForm::half_i4;
  const int64_t group = s.integer(kGroup);
  if (has_groups ? group != 32 && group != 64 : group != 0) {
    return failure(Code::op_attribute, Section::program,
                   "%s: group is %" PRId64 ", allowed are 32 and 64 for 4 bits, else 0", s.name(), group);
  }
  if (ids.rank == kMaxRank || s.output(0).rank != ids.rank + 1) {
    return failure(Code::op_shape, Section::program, "%s: the output has rank %u, expected one more than the ids' %u",
                   s.name(), s.output(0).rank, ids.rank)
        .in_tensor(s.op.outputs[0]);
  }
  const uint32_t width = s.output(0).dims[ids.rank];
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < ids.rank; ++d) dims[d] = ids.dims[d];
  dims[ids.rank] = width;
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, ids.rank + 1u));
  const auto rows = static_cast<uint64_t>(s.integer(kRows));
  if (form == PanelForm::f32) {
    ALCOVE_TRY(check_panels(s, s.op.inputs[1], "table", rows, width));
  } else {
    ALCOVE_TRY(
        check_type(s, s.op.inputs[1], "table", {.dtypes = make_set({DType::i8}), .rank = 2, .is_constant = true}));
    const uint64_t packed[2] = {(rows + 15) / 16, kernels::panel_bytes(form, width, static_cast<size_t>(group))};
    ALCOVE_TRY(check_shape(s, s.op.inputs[1], "table", packed, 2));
  }
  cost = elements(ids) * (Checked(width) * 8 + kTensorAlignment);
  return {};
}

Status run_embedding_panels(const Call& c) noexcept {
  const Tensor &ids = c.input(0), &output = c.output(0);
  const bool are_wide = ids.dtype == DType::i64;
  const size_t count = ids.element_count();
  const auto rows = static_cast<size_t>(c.integer(kRows));
  auto form = static_cast<kernels::PanelForm>(c.integer(kForm));
  if (c.input(1).is_half()) form = c.input(1).stored == DType::f16 ? kernels::PanelForm::f16 : kernels::PanelForm::bf16;
  const size_t done = c.kernels.embedding_panels_f32({c.in<uint8_t>(0), are_wide, count, c.in<int8_t>(1), form, rows,
                                                      output.dims[output.rank - 1],
                                                      static_cast<size_t>(c.integer(kGroup)), c.out<float>(0)});
  if (done == count) return {};
  const int64_t id = are_wide ? c.in<int64_t>(0)[done] : c.in<int32_t>(0)[done];
  return c.bad_index(0, done, id, 0, static_cast<int64_t>(rows));
}

}  // namespace alcove::ops
