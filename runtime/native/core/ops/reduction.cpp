// Many elements to one, and running totals: reduce, scan, scan_extreme.
#include "core/ops/movement.h"

namespace alcove::ops {

namespace {

constexpr Integer kFunction{{OpCode::reduce, OpCode::scan}, "function"};
constexpr Integer kFirstAxis{OpCode::reduce, "first_axis"}, kAxisCount{OpCode::reduce, "axis_count"};
constexpr Integer kAxis{{OpCode::scan, OpCode::scan_extreme}, "axis"}, kIsGreatest{OpCode::scan_extreme, "is_greatest"};
constexpr uint32_t kSummed = make_set({DType::f32, DType::i64});

// A tensor as [outer, n, inner].
struct Axes {
  size_t outer = 1, n = 1, inner = 1;
};

Axes split_axes(const Tensor& tensor, size_t first, size_t count) noexcept {
  Axes axes;
  for (size_t d = 0; d < tensor.rank; ++d) {
    size_t& size = d < first ? axes.outer : d < first + count ? axes.n : axes.inner;
    size *= tensor.dims[d];
  }
  return axes;
}

Status check_has_axes(const Subject& s) {
  if (s.input(0).rank > 0) return {};
  return failure(Code::op_shape, Section::program, "%s: the input has rank 0, expected 1 or more", s.name())
      .in_tensor(s.op.inputs[0]);
}

kernels::Scan make_scan(const Call& c, int64_t axis) noexcept {
  const Axes axes = split_axes(c.input(0), static_cast<size_t>(axis), 1);
  return {c.in<uint8_t>(0), c.out<uint8_t>(0), nullptr, axes.outer, axes.n, axes.inner, kernels::Running::sum};
}

void run(const Call& c, const kernels::Scan& args) noexcept {
  auto* const scan = c.input(0).dtype == DType::f32 ? c.kernels.scan_f32 : c.kernels.scan_i64;
  scan(args);
}

}  // namespace

Status check_reduce(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_integer(s, kFunction, "function", 0, kernels::kFolds - 1));
  const auto fold = static_cast<kernels::Fold>(s.integer(kFunction));
  uint32_t dtypes = kAnyType;
  if (fold == kernels::Fold::sum || fold == kernels::Fold::prod) dtypes = kSummed;
  if (fold == kernels::Fold::mean) dtypes = kFloat;
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = dtypes}));
  ALCOVE_TRY(check_has_axes(s));
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_integer(s, kFirstAxis, "first_axis", 0, in.rank - 1));
  ALCOVE_TRY(check_integer(s, kAxisCount, "axis_count", 1, in.rank - s.integer(kFirstAxis)));
  const auto first = static_cast<size_t>(s.integer(kFirstAxis));
  const auto count = static_cast<size_t>(s.integer(kAxisCount));
  const bool gives_index = fold == kernels::Fold::argmax || fold == kernels::Fold::argmin;
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", gives_index ? DType::i64 : in.dtype));
  uint64_t dims[kMaxRank];
  size_t rank = 0;
  for (size_t d = 0; d < in.rank; ++d) {
    if (d < first || d >= first + count) dims[rank++] = in.dims[d];
  }
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, rank));
  cost = elements(in) * 4;
  return {};
}

Status run_reduce(const Call& c) noexcept {
  const Axes axes =
      split_axes(c.input(0), static_cast<size_t>(c.integer(kFirstAxis)), static_cast<size_t>(c.integer(kAxisCount)));
  const kernels::Reduce args = {c.in<uint8_t>(0), c.out<uint8_t>(0), axes.outer,
                                axes.n,           axes.inner,        static_cast<kernels::Fold>(c.integer(kFunction))};
  switch (c.input(0).dtype) {
    case DType::f32: c.kernels.reduce_f32(args); break;
    case DType::i32: c.kernels.reduce_i32(args); break;
    case DType::i64: c.kernels.reduce_i64(args); break;
    case DType::i8: c.kernels.reduce_i8(args); break;
    default:  // u8 and bool
      c.kernels.reduce_u8(args);
      break;
  }
  return {};
}

Status check_scan(const Subject& s, Checked& cost) {
  const auto last = static_cast<int64_t>(kernels::Running::log_sum_exp);
  ALCOVE_TRY(check_integer(s, kFunction, "function", 0, last));
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = s.integer(kFunction) == last ? kFloat : kSummed}));
  ALCOVE_TRY(check_has_axes(s));
  ALCOVE_TRY(check_integer(s, kAxis, "axis", 0, s.input(0).rank - 1));
  ALCOVE_TRY(check_like_input(s));
  cost = elements(s.input(0)) * 64;
  return {};
}

Status run_scan(const Call& c) noexcept {
  kernels::Scan args = make_scan(c, c.integer(kAxis));
  args.function = static_cast<kernels::Running>(c.integer(kFunction));
  run(c, args);
  return {};
}

Status check_scan_extreme(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kSummed}));
  ALCOVE_TRY(check_has_axes(s));
  ALCOVE_TRY(check_integer(s, kIsGreatest, "is_greatest", 0, 1));
  ALCOVE_TRY(check_integer(s, kAxis, "axis", 0, s.input(0).rank - 1));
  ALCOVE_TRY(check_like_input(s));
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[1], "indices", DType::i64));
  uint64_t dims[kMaxRank];
  for (size_t d = 0; d < s.input(0).rank; ++d) dims[d] = s.input(0).dims[d];
  ALCOVE_TRY(check_shape(s, s.op.outputs[1], "indices", dims, s.input(0).rank));
  cost = elements(s.input(0)) * 8;
  return {};
}

Status run_scan_extreme(const Call& c) noexcept {
  kernels::Scan args = make_scan(c, c.integer(kAxis));
  args.indices = c.out<int64_t>(1);
  args.function = c.integer(kIsGreatest) == 1 ? kernels::Running::max : kernels::Running::min;
  run(c, args);
  return {};
}

}  // namespace alcove::ops
