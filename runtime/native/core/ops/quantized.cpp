// Quantized operators without products: quantize, dequantize, add_i8, mul_i8, lut_i8, mean_i8, max_pool2d_i8, embedding_i8.
#include "core/ops/quantized.h"

#include <cmath>

namespace alcove::ops {

namespace {

constexpr OpCodes kBoth = {OpCode::quantize, OpCode::dequantize};
constexpr Real kScale{kBoth, "scale"};
constexpr Integer kZeroPoint{kBoth, "zero_point"};

// Attributes of add_i8 and mul_i8 besides their ratios.
struct BinaryAttributes {
  consteval BinaryAttributes(OpCode op) : a_zero(op, "a_zero_point"), b_zero(op, "b_zero_point"), output(op) {}

  Integer a_zero, b_zero;
  Int8Output output;
};
constexpr BinaryAttributes kAdd{OpCode::add_i8}, kMul{OpCode::mul_i8};
constexpr Real kAddRatioA{OpCode::add_i8, "a_ratio"}, kAddRatioB{OpCode::add_i8, "b_ratio"};
constexpr Real kMulRatio{OpCode::mul_i8, "ratio"};

constexpr OpCode kMean = OpCode::mean_i8;
constexpr Integer kMeanFirst{kMean, "first_axis"}, kMeanCount{kMean, "axis_count"}, kMeanKeeps{kMean, "keeps_axes"};
constexpr Real kMeanRatio{kMean, "ratio"};
constexpr Integer kMeanZero{kMean, "input_zero_point"};
constexpr Int8Output kMeanOutput{kMean};

constexpr OpCode kPool = OpCode::max_pool2d_i8;
constexpr Integers kKernel{{kPool}, "kernel"}, kStride{{kPool}, "stride"}, kPad{{kPool}, "pad"},
    kDilation{{kPool}, "dilation"};
constexpr Integer kCeilMode{kPool, "ceil_mode"};

constexpr int64_t kMostExtent = 1 << 20;
// int32 sums of int8, less their zero point, stay exact.
constexpr uint64_t kMostSummed = 1u << 23;

Status check_types(const Subject& s, uint32_t input, uint32_t output) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = input}));
  return check_type(s, s.op.outputs[0], "output", {.dtypes = output});
}

// The dimension of `t` that meets dimension d of the output; 1 where it has none.
uint64_t aligned_dim(const Tensor& t, const Tensor& out, size_t d) noexcept {
  const size_t missing = size_t{out.rank} - t.rank;
  return d < missing ? 1 : t.dims[d - missing];
}

Status check_broadcast(const Subject& s) {
  ALCOVE_TRY(check_types(s, kInt8, kInt8));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "second input", {.dtypes = kInt8}));
  const Tensor &a = s.input(0), &b = s.input(1), &out = s.output(0);
  const uint8_t rank = a.rank > b.rank ? a.rank : b.rank;
  if (out.rank != rank) {
    return failure(Code::op_shape, Section::program, "%s: the output has rank %u, expected %u", s.name(), out.rank,
                   rank)
        .in_tensor(s.op.outputs[0]);
  }
  for (uint8_t d = 0; d < rank; ++d) {
    const uint64_t left = aligned_dim(a, out, d), right = aligned_dim(b, out, d);
    if (left != right && left != 1 && right != 1) {
      return failure(Code::op_shape, Section::program, "%s: dimension %u is %" PRIu64 " and %" PRIu64, s.name(), d,
                     left, right);
    }
    ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", d, left == 1 ? right : left));
  }
  return {};
}

void set_strides(const Tensor& t, const Tensor& out, size_t* strides) noexcept {
  size_t stride = 1;
  for (size_t d = out.rank; d-- > 0;) {
    const size_t size = aligned_dim(t, out, d);
    strides[d] = size == 1 ? 0 : stride;
    stride *= size;
  }
}

kernels::BinaryI8 binary_args(const Call& c, BinaryAttributes attributes) noexcept {
  kernels::BinaryI8 args{};
  args.a = c.in<int8_t>(0);
  args.b = c.in<int8_t>(1);
  args.output = c.out<int8_t>(0);
  args.rank = c.output(0).rank;
  for (uint8_t d = 0; d < args.rank; ++d) args.dims[d] = c.output(0).dims[d];
  set_strides(c.input(0), c.output(0), args.a_strides);
  set_strides(c.input(1), c.output(0), args.b_strides);
  args.a_zero = static_cast<int32_t>(c.integer(attributes.a_zero));
  args.b_zero = static_cast<int32_t>(c.integer(attributes.b_zero));
  attributes.output.read(c, args);
  return args;
}

// As torch counts windows: with ceil_mode one may hang over the end, but not start there.
uint64_t find_pool_size(const Subject& s, uint8_t axis, uint64_t in) {
  const auto at = [&](Integers sizes) { return s.integer(sizes[axis]); };
  const auto size = static_cast<int64_t>(in);
  const int64_t extra = s.integer(kCeilMode) == 1 ? at(kStride) - 1 : 0;
  const int64_t room = size + 2 * at(kPad) - (at(kKernel) - 1) * at(kDilation) - 1 + extra;
  if (room < 0) return 0;
  int64_t out = room / at(kStride) + 1;
  if (extra > 0 && (out - 1) * at(kStride) >= size + at(kPad)) --out;
  return static_cast<uint64_t>(out);
}

// The product of `count` dimensions from `first` on.
uint64_t span(const Tensor& t, size_t first, size_t count) noexcept {
  uint64_t product = 1;
  for (size_t d = first; d < first + count; ++d) product *= t.dims[d];
  return product;
}

}  // namespace

Status check_scale(const Subject& s, Real attribute, const char* role) {
  const double value = s.real(attribute);
  if (value >= 0x1p-100 && value <= 0x1p100 && static_cast<double>(static_cast<float>(value)) == value) return {};
  return failure(Code::op_attribute, Section::program, "%s: %s must be a float32 between 2^-100 and 2^100", s.name(),
                 role);
}

Status check_int8(const Subject& s, Integer attribute, const char* role) {
  return check_integer(s, attribute, role, -128, 127);
}

Status check_int8_output(const Subject& s, Int8Output attributes) {
  ALCOVE_TRY(check_int8(s, attributes.zero_point, "zero_point"));
  ALCOVE_TRY(check_int8(s, attributes.low, "low"));
  return check_integer(s, attributes.high, "high", s.integer(attributes.low), 127);
}

Status check_same_shape(const Subject& s) {
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < s.input(0).rank; ++d) dims[d] = s.input(0).dims[d];
  return check_shape(s, s.op.outputs[0], "output", dims, s.input(0).rank);
}

Status check_quantize(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_types(s, kFloat, kInt8));
  ALCOVE_TRY(check_same_shape(s));
  ALCOVE_TRY(check_scale(s, kScale, "scale"));
  ALCOVE_TRY(check_int8(s, kZeroPoint, "zero_point"));
  cost = elements(s.input(0)) * 4;
  return {};
}

Status run_quantize(const Call& c) noexcept {
  c.kernels.quantize_f32({c.in<float>(0), c.out<int8_t>(0), c.input(0).element_count(),
                          static_cast<float>(c.real(kScale)), static_cast<int32_t>(c.integer(kZeroPoint))});
  return {};
}

Status check_dequantize(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_types(s, kInt8, kFloat));
  ALCOVE_TRY(check_same_shape(s));
  ALCOVE_TRY(check_scale(s, kScale, "scale"));
  ALCOVE_TRY(check_int8(s, kZeroPoint, "zero_point"));
  cost = elements(s.input(0)) * 2;
  return {};
}

Status run_dequantize(const Call& c) noexcept {
  c.kernels.dequantize_i8({c.in<int8_t>(0), c.out<float>(0), c.input(0).element_count(),
                           static_cast<float>(c.real(kScale)), static_cast<int32_t>(c.integer(kZeroPoint))});
  return {};
}

Status check_add_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_broadcast(s));
  ALCOVE_TRY(check_scale(s, kAddRatioA, "a_ratio"));
  ALCOVE_TRY(check_scale(s, kAddRatioB, "b_ratio"));
  ALCOVE_TRY(check_int8(s, kAdd.a_zero, "a_zero_point"));
  ALCOVE_TRY(check_int8(s, kAdd.b_zero, "b_zero_point"));
  ALCOVE_TRY(check_int8_output(s, kAdd.output));
  cost = elements(s.output(0)) * 8;
  return {};
}

Status run_add_i8(const Call& c) noexcept {
  kernels::BinaryI8 args = binary_args(c, kAdd);
  args.a_ratio = static_cast<float>(c.real(kAddRatioA));
  args.b_ratio = static_cast<float>(c.real(kAddRatioB));
  c.kernels.add_i8_i8(args);
  return {};
}

Status check_mul_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_broadcast(s));
  ALCOVE_TRY(check_scale(s, kMulRatio, "ratio"));
  ALCOVE_TRY(check_int8(s, kMul.a_zero, "a_zero_point"));
  ALCOVE_TRY(check_int8(s, kMul.b_zero, "b_zero_point"));
  ALCOVE_TRY(check_int8_output(s, kMul.output));
  cost = elements(s.output(0)) * 8;
  return {};
}

Status run_mul_i8(const Call& c) noexcept {
  kernels::BinaryI8 args = binary_args(c, kMul);
  args.a_ratio = static_cast<float>(c.real(kMulRatio));
  c.kernels.mul_i8_i8(args);
  return {};
}

Status check_lut_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kInt8}));
  ALCOVE_TRY(check_like_input(s));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "table", {.dtypes = kInt8, .rank = 1}));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[1], "table", 0, 256));
  cost = elements(s.input(0)) * 2;
  return {};
}

Status run_lut_i8(const Call& c) noexcept {
  c.kernels.lut_i8_i8({c.in<int8_t>(0), c.in<int8_t>(1), c.out<int8_t>(0), c.input(0).element_count()});
  return {};
}

Status check_mean_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_types(s, kInt8, kInt8));
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_integer(s, kMeanFirst, "first_axis", 0, int64_t{in.rank} - 1));
  const int64_t first = s.integer(kMeanFirst);
  ALCOVE_TRY(check_integer(s, kMeanCount, "axis_count", 1, int64_t{in.rank} - first));
  ALCOVE_TRY(check_integer(s, kMeanKeeps, "keeps_axes", 0, 1));
  ALCOVE_TRY(check_scale(s, kMeanRatio, "ratio"));
  ALCOVE_TRY(check_int8(s, kMeanZero, "input_zero_point"));
  ALCOVE_TRY(check_int8_output(s, kMeanOutput));
  const int64_t end = first + s.integer(kMeanCount);
  uint64_t dims[kMaxRank];
  size_t rank = 0;
  Checked reduced = 1;
  for (int64_t d = 0; d < in.rank; ++d) {
    const bool is_reduced = d >= first && d < end;
    if (is_reduced) reduced = reduced * in.dims[d];
    if (!is_reduced) dims[rank++] = in.dims[d];
    if (is_reduced && s.integer(kMeanKeeps) == 1) dims[rank++] = 1;
  }
  if (!reduced.is_at_most(kMostSummed)) {
    return failure(Code::op_shape, Section::program, "mean_i8: more than %" PRIu64 " elements in a mean", kMostSummed);
  }
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, rank));
  cost = elements(in) + elements(s.output(0)) * 4;
  return {};
}

Status run_mean_i8(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const auto first = static_cast<size_t>(c.integer(kMeanFirst)), count = static_cast<size_t>(c.integer(kMeanCount));
  kernels::MeanI8 args{};
  args.input = c.in<int8_t>(0);
  args.output = c.out<int8_t>(0);
  args.outer = span(in, 0, first);
  args.reduced = span(in, first, count);
  args.inner = span(in, first + count, in.rank - first - count);
  args.ratio = static_cast<float>(c.real(kMeanRatio));
  args.input_zero = static_cast<int32_t>(c.integer(kMeanZero));
  kMeanOutput.read(c, args);
  c.kernels.mean_i8_i8(args);
  return {};
}

Status check_max_pool2d_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kInt8, .rank = 4}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kInt8, .rank = 4}));
  for (uint8_t axis = 0; axis < 2; ++axis) {
    ALCOVE_TRY(check_integer(s, kKernel[axis], "kernel", 1, kMostExtent));
    ALCOVE_TRY(check_integer(s, kStride[axis], "stride", 1, kMostExtent));
    ALCOVE_TRY(check_integer(s, kPad[axis], "padding", 0, kMostExtent));
    ALCOVE_TRY(check_integer(s, kDilation[axis], "dilation", 1, kMostExtent));
  }
  ALCOVE_TRY(check_integer(s, kCeilMode, "ceil_mode", 0, 1));
  const Tensor& in = s.input(0);
  const uint64_t dims[4] = {in.dims[0], find_pool_size(s, 0, in.dims[1]), find_pool_size(s, 1, in.dims[2]), in.dims[3]};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 4));
  cost = elements(s.output(0)) * (static_cast<uint64_t>(s.integer(kKernel[0]) * s.integer(kKernel[1])) + 1) +
         pixel_cost(s.output(0));
  return {};
}

Status run_max_pool2d_i8(const Call& c) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  const auto size = [&c](Integer attribute) { return static_cast<size_t>(c.integer(attribute)); };
  c.kernels.max_pool2d_i8_i8({c.in<int8_t>(0), c.out<int8_t>(0), in.dims[0], in.dims[1], in.dims[2], in.dims[3],
                              out.dims[1], out.dims[2], size(kKernel[0]), size(kKernel[1]), size(kStride[0]),
                              size(kStride[1]), size(kPad[0]), size(kPad[1]), size(kDilation[0]), size(kDilation[1])});
  return {};
}

Status check_embedding_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "ids", {.dtypes = kIndices}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "table", {.dtypes = kInt8, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.inputs[2], "scale", {.dtypes = kFloat, .rank = 1}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat}));
  const Tensor& ids = s.input(0);
  const uint32_t dim = s.input(1).dims[1];
  ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "scale", 0, dim));
  if (ids.rank == kMaxRank) {
    return failure(Code::op_shape, Section::program,
                   "embedding_i8: ids have rank %" PRIu32 ", the output would have more", kMaxRank);
  }
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < ids.rank; ++d) dims[d] = ids.dims[d];
  dims[ids.rank] = dim;
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, ids.rank + 1u));
  cost = elements(ids) * (Checked(dim) + kTensorAlignment);
  return {};
}

Status run_embedding_i8(const Call& c) noexcept {
  const Tensor &ids = c.input(0), &table = c.input(1);
  const bool are_wide = ids.dtype == DType::i64;
  const size_t count = ids.element_count();
  const size_t done = c.kernels.embedding_i8_f32({c.in<uint8_t>(0), are_wide, count, c.in<int8_t>(1), c.in<float>(2),
                                                  table.dims[0], table.dims[1], c.out<float>(0)});
  if (done == count) return {};
  const int64_t id = are_wide ? c.in<int64_t>(0)[done] : c.in<int32_t>(0)[done];
  return c.bad_index(0, done, id, 0, table.dims[0]);
}

}  // namespace alcove::ops
