// In order of size: topk, sort.
#include <bit>

#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

constexpr Integer kK{OpCode::topk, "k"}, kIsLargest{OpCode::topk, "is_largest"};
constexpr Integer kIsDescending{OpCode::sort, "is_descending"};
constexpr uint32_t kRanked = make_set({DType::f32, DType::i32, DType::i64});
constexpr uint32_t kSorted = kRanked | make_set({DType::u8, DType::boolean});

Status check_ranking(const Subject& s, uint32_t dtypes) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = dtypes}));
  if (s.input(0).rank > 0) return {};
  return failure(Code::op_shape, Section::program, "%s: the input has rank 0, expected 1 or more", s.name())
      .in_tensor(s.op.inputs[0]);
}

// Values like the input and indices, with `size` in the last dimension.
Status check_ranked(const Subject& s, uint64_t size) {
  const Tensor& in = s.input(0);
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  dims[in.rank - 1] = size;
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "values", {.dtypes = make_set({in.dtype})}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "values", dims, in.rank));
  ALCOVE_TRY(check_type(s, s.op.outputs[1], "indices", {.dtypes = make_set({DType::i64})}));
  return check_shape(s, s.op.outputs[1], "indices", dims, in.rank);
}

uint32_t last_dimension(const Tensor& tensor) { return tensor.dims[tensor.rank - 1]; }

}  // namespace

Status check_topk(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_ranking(s, kRanked));
  ALCOVE_TRY(check_integer(s, kK, "k", 1, last_dimension(s.input(0))));
  ALCOVE_TRY(check_integer(s, kIsLargest, "is_largest", 0, 1));
  const auto k = static_cast<uint64_t>(s.integer(kK));
  ALCOVE_TRY(check_ranked(s, k));
  // Each element may sink through the whole heap.
  cost = elements(s.input(0)) * (2 * static_cast<uint64_t>(std::bit_width(k)));
  return {};
}

Status run_topk(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const size_t n = last_dimension(in);
  const kernels::Topk args = {c.in<uint8_t>(0),
                              c.out<uint8_t>(0),
                              c.out<int64_t>(1),
                              in.element_count() / n,
                              n,
                              static_cast<size_t>(c.integer(kK)),
                              c.integer(kIsLargest) == 1};
  auto* const topk = in.dtype == DType::f32   ? c.kernels.topk_f32
                     : in.dtype == DType::i32 ? c.kernels.topk_i32
                                              : c.kernels.topk_i64;
  topk(args);
  return {};
}

Status check_sort(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_ranking(s, kSorted));
  ALCOVE_TRY(check_integer(s, kIsDescending, "is_descending", 0, 1));
  const uint32_t n = last_dimension(s.input(0));
  ALCOVE_TRY(check_ranked(s, n));
  ALCOVE_TRY(check_scratch(s, 2, Checked(n) * kernels::sort_bytes_per_element(dtype_bytes(s.input(0).dtype))));
  // A run of 16 by insertion, then a pass of merges for each doubling.
  cost = elements(s.input(0)) * (16 + 2 * static_cast<uint64_t>(std::bit_width(n)));
  return {};
}

Status run_sort(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const size_t n = last_dimension(in);
  const kernels::Sort args = {c.in<uint8_t>(0),
                              c.out<uint8_t>(0),
                              c.out<int64_t>(1),
                              c.out<uint8_t>(2),
                              in.element_count() / n,
                              n,
                              c.integer(kIsDescending) == 1};
  switch (in.dtype) {
    case DType::f32: c.kernels.sort_f32(args); break;
    case DType::i32: c.kernels.sort_i32(args); break;
    case DType::i64: c.kernels.sort_i64(args); break;
    default:  // u8 and bool
      c.kernels.sort_u8(args);
      break;
  }
  return {};
}

}  // namespace alcove::ops
