// Products with quantized weights: linear_i8, conv2d_i8, depthwise_conv2d_i8, linear_qd8_qc8w, linear_qd8_qb4w, linear_f32_qc8w,
// linear_f32_qb4w.
#include "core/ops/partition.h"
#include "core/ops/gemm.h"
#include "core/ops/quantized.h"
#include "kernels/requantize.h"

namespace alcove::ops {

namespace {

// Kernels, strides, dilations and paddings beyond this make no sense, and their products stay far from 2^64.
constexpr int64_t kMostExtent = 1 << 20;

constexpr OpCodes kBoth = {OpCode::conv2d_i8, OpCode::depthwise_conv2d_i8};
constexpr Integers kKernel{kBoth, "kernel"}, kStride{kBoth, "stride"}, kDilation{kBoth, "dilation"};
constexpr Integers kPadBefore{kBoth, "pad", {"_top", "_left"}}, kPadAfter{kBoth, "pad", {"_bottom", "_right"}};

// The zero points and bounds of a convolution.
struct ConvolutionAttributes {
  consteval ConvolutionAttributes(OpCode op) : input(op, "input_zero_point"), output(op) {}

  Integer input;
  Int8Output output;
};
constexpr ConvolutionAttributes kConv{OpCode::conv2d_i8}, kDepthwise{OpCode::depthwise_conv2d_i8};
constexpr Integer kGroups{OpCode::conv2d_i8, "groups"},
    kGroupSize{{OpCode::linear_f32_qb4w, OpCode::linear_qd8_qb4w}, {}, "group"};
constexpr Int8Output kLinearOutput{OpCode::linear_i8};

// Input 1 is `count` panels of `bytes` each, in int8.
Status check_packed(const Subject& s, const Checked& count, const Checked& bytes) {
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kInt8, .rank = 2, .is_constant = true}));
  if (!count.is_at_most(kMaxDimension) || !bytes.is_at_most(kMaxDimension)) {
    return failure(Code::op_shape, Section::program, "%s: the weights have too many elements", s.name());
  }
  const uint64_t dims[2] = {count.value(), bytes.value()};
  return check_shape(s, s.op.inputs[1], "weight", dims, 2);
}

using Sizes = GemmSizes;

// Int8 products take a fraction of the time of f32's.
constexpr uint64_t kInt8Gain = 4;

const int8_t* panels_at(const Call& c, const Block& at, size_t panel_bytes) noexcept {
  return c.in<int8_t>(1) + at.column / 16 * panel_bytes;
}

const float* bias_at(const Call& c, const Block& at) noexcept {
  return c.op.input_count == 3 ? c.in<float>(2) + at.column : nullptr;
}

Sizes read_linear_sizes(const Tensor& in, const Tensor& out) noexcept {
  const uint64_t k = in.dims[in.rank - 1];
  return {in.element_count() / k, out.dims[out.rank - 1], k};
}

// Shapes of a linear: input [..., k], output [..., n].
Status check_linear_shapes(const Subject& s, uint32_t dtypes) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = dtypes}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = dtypes}));
  const Tensor &in = s.input(0), &out = s.output(0);
  if (in.rank == 0) {
    return failure(Code::op_shape, Section::program, "%s: the input has rank 0, expected 1 or more", s.name())
        .in_tensor(s.op.inputs[0]);
  }
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  if (out.rank == in.rank) dims[in.rank - 1] = out.dims[in.rank - 1];
  return check_shape(s, s.op.outputs[0], "output", dims, in.rank);
}

Status check_bias(const Subject& s) {
  if (s.op.input_count < 3) return {};
  ALCOVE_TRY(check_type(s, s.op.inputs[2], "bias", {.dtypes = kFloat, .rank = 1}));
  return check_dimension(s, s.op.inputs[2], "bias", 0, s.output(0).dims[s.output(0).rank - 1]);
}

Status check_group(const Subject& s) {
  const int64_t group = s.integer(kGroupSize);
  if (group == 32 || group == 64) return {};
  return failure(Code::op_attribute, Section::program, "%s: group is %" PRId64 ", allowed are 32 and 64", s.name(),
                 group);
}

Checked linear_cost(const Subject& s, uint64_t a_product) {
  const Sizes sizes = read_linear_sizes(s.input(0), s.output(0));
  return Checked(sizes.rows) * ((sizes.n + 15) / 16 * 16) * (Checked(sizes.k) + 32) * a_product;
}

Status check_float_linear(const Subject& s) {
  ALCOVE_TRY(check_linear_shapes(s, kFloat));
  return check_bias(s);
}

Status check_int8_weights(const Subject& s) {
  const Sizes sizes = read_linear_sizes(s.input(0), s.output(0));
  return check_packed(s, (sizes.n + 15) / 16, kernels::panel_bytes_i8(sizes.k));
}

Status check_pair(const Subject& s, Integers sizes, const char* role, int64_t low) {
  ALCOVE_TRY(check_integer(s, sizes[0], role, low, kMostExtent));
  return check_integer(s, sizes[1], role, low, kMostExtent);
}

// What follows from input size, paddings, kernel, stride and dilation of one dimension; 0 if the kernel does not fit.
uint64_t find_convolution_size(const Subject& s, uint8_t axis, uint64_t in) {
  const auto at = [&](Integers sizes) { return s.integer(sizes[axis]); };
  const int64_t room =
      static_cast<int64_t>(in) + at(kPadBefore) + at(kPadAfter) - (at(kKernel) - 1) * at(kDilation) - 1;
  return room < 0 ? 0 : static_cast<uint64_t>(room / at(kStride)) + 1;
}

Status check_images(const Subject& s, ConvolutionAttributes attributes) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kInt8, .rank = 4}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kInt8, .rank = 4}));
  ALCOVE_TRY(check_pair(s, kKernel, "kernel", 1));
  ALCOVE_TRY(check_pair(s, kStride, "stride", 1));
  ALCOVE_TRY(check_pair(s, kPadBefore, "padding", 0));
  ALCOVE_TRY(check_pair(s, kPadAfter, "padding", 0));
  ALCOVE_TRY(check_pair(s, kDilation, "dilation", 1));
  ALCOVE_TRY(check_int8(s, attributes.input, "input_zero_point"));
  ALCOVE_TRY(check_int8_output(s, attributes.output));
  const Tensor& in = s.input(0);
  const uint64_t dims[4] = {in.dims[0], find_convolution_size(s, 0, in.dims[1]),
                            find_convolution_size(s, 1, in.dims[2]), s.output(0).dims[3]};
  return check_shape(s, s.op.outputs[0], "output", dims, 4);
}

template <typename Args>
void set_images(const Call& c, ConvolutionAttributes attributes, Args& args) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  const auto size = [&c](Integer attribute) { return static_cast<size_t>(c.integer(attribute)); };
  args.input = c.in<int8_t>(0);
  args.panels = c.in<int8_t>(1);
  args.output = c.out<int8_t>(0);
  args.batch = in.dims[0];
  args.in_h = in.dims[1];
  args.in_w = in.dims[2];
  args.out_h = out.dims[1];
  args.out_w = out.dims[2];
  args.kernel_h = size(kKernel[0]);
  args.kernel_w = size(kKernel[1]);
  args.stride_h = size(kStride[0]);
  args.stride_w = size(kStride[1]);
  args.pad_top = size(kPadBefore[0]);
  args.pad_left = size(kPadBefore[1]);
  args.dilation_h = size(kDilation[0]);
  args.dilation_w = size(kDilation[1]);
  args.input_zero_point = static_cast<int32_t>(c.integer(attributes.input));
  attributes.output.read(c, args);
}

}  // namespace

Status check_gemm_i8(const Subject& s, const Checked& k) {
  if (k.is_at_most(kernels::kMaxProductsI8)) return {};
  return failure(Code::op_shape, Section::program, "%s: a sum of more than %zu products", s.name(),
                 kernels::kMaxProductsI8);
}

Status check_linear_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_linear_shapes(s, kInt8));
  ALCOVE_TRY(check_gemm_i8(s, s.input(0).dims[s.input(0).rank - 1]));
  ALCOVE_TRY(check_int8_weights(s));
  ALCOVE_TRY(check_int8_output(s, kLinearOutput));
  cost = linear_cost(s, 1);
  return {};
}

Status run_linear_i8(const Call& c) noexcept {
  const Sizes sizes = read_linear_sizes(c.input(0), c.output(0));
  const kernels::LinearI8 args = {c.in<int8_t>(0),
                                  sizes.k,
                                  c.in<int8_t>(1),
                                  c.out<int8_t>(0),
                                  sizes.n,
                                  nullptr,
                                  sizes.rows,
                                  sizes.n,
                                  sizes.k,
                                  static_cast<int32_t>(c.integer(kLinearOutput.zero_point)),
                                  static_cast<int32_t>(c.integer(kLinearOutput.low)),
                                  static_cast<int32_t>(c.integer(kLinearOutput.high))};
  split_gemm(c, sizes, true, kInt8Gain, [&](const Block& at, size_t) noexcept {
    kernels::LinearI8 some = args;
    some.input += at.row * sizes.k;
    some.panels += at.column / 16 * kernels::panel_bytes_i8(sizes.k);
    some.output += at.row * sizes.n + at.column;
    some.m = at.rows;
    some.n = at.columns;
    c.kernels.linear_i8_i8(some);
  });
  return {};
}

Status check_conv2d_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s, kConv));
  ALCOVE_TRY(check_integer(s, kGroups, "groups", 1, kMaxDimension));
  const Tensor &in = s.input(0), &out = s.output(0);
  const auto groups = static_cast<uint64_t>(s.integer(kGroups));
  if (in.dims[3] % groups != 0 || out.dims[3] % groups != 0) {
    return failure(Code::op_shape, Section::program,
                   "conv2d_i8: %" PRIu32 " and %" PRIu32 " channels are not in %" PRIu64 " groups", in.dims[3],
                   out.dims[3], groups);
  }
  const auto taps = static_cast<uint64_t>(s.integer(kKernel[0]) * s.integer(kKernel[1]));
  const Checked patch = Checked(taps) * (in.dims[3] / groups);
  ALCOVE_TRY(check_gemm_i8(s, patch));
  const uint64_t panels = (out.dims[3] / groups + 15) / 16;
  ALCOVE_TRY(check_packed(s, Checked(groups) * panels, kernels::panel_bytes_i8(patch.value())));
  ALCOVE_TRY(check_scratch(s, 1, kernels::conv2d_i8_scratch_bytes(patch.value())));
  cost = Checked(out.dims[0]) * out.dims[1] * out.dims[2] * groups * panels * 16 * (patch + 32);
  return {};
}

Status run_conv2d_i8(const Call& c) noexcept {
  kernels::Conv2dI8 args{};
  set_images(c, kConv, args);
  args.groups = static_cast<size_t>(c.integer(kGroups));
  args.in_c = c.input(0).dims[3] / args.groups;
  args.out_c = c.output(0).dims[3] / args.groups;
  args.linear = c.kernels.linear_i8_i8;
  const uint64_t work = c.output(0).element_count() * args.kernel_h * args.kernel_w * args.in_c / kInt8Gain;
  make_column(args);
  partition_images(c, args, make_row_slide(args), make_column_slide(args), 1, work,
                   [&c](kernels::Conv2dI8 partition, size_t part) noexcept {
                     partition.scratch = c.scratch<int8_t>(part);
                     c.kernels.conv2d_i8_i8(partition);
                   });
  return {};
}

Status check_depthwise_conv2d_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s, kDepthwise));
  const uint32_t channels = s.input(0).dims[3];
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 3, channels));
  const auto taps = static_cast<uint64_t>(s.integer(kKernel[0]) * s.integer(kKernel[1]));
  ALCOVE_TRY(check_gemm_i8(s, taps));
  ALCOVE_TRY(check_packed(s, (uint64_t{channels} + 15) / 16, kernels::depthwise_panel_bytes_i8(taps)));
  cost = elements(s.output(0)) * (taps + 32) + pixel_cost(s.output(0));
  return {};
}

Status run_depthwise_conv2d_i8(const Call& c) noexcept {
  kernels::DepthwiseConv2dI8 args{};
  set_images(c, kDepthwise, args);
  args.channels = c.input(0).dims[3];
  const uint64_t work = c.output(0).element_count() * args.kernel_h * args.kernel_w;
  partition_images(c, args, make_row_slide(args), make_column_slide(args), 1, work,
                   [&c](const kernels::DepthwiseConv2dI8& partition, size_t) noexcept {
                     c.kernels.depthwise_conv2d_i8_i8(partition);
                   });
  return {};
}

Status check_linear_qd8_qc8w(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_float_linear(s));
  const uint64_t k = s.input(0).dims[s.input(0).rank - 1];
  ALCOVE_TRY(check_gemm_i8(s, k));
  ALCOVE_TRY(check_int8_weights(s));
  ALCOVE_TRY(check_scratch(s, 1, kernels::linear_qd8_qc8w_scratch_bytes(k)));
  cost = linear_cost(s, 1);
  return {};
}

// Fewer bytes of weights than these may be in a cache where the run before left them; fetching them early would only take time.
constexpr uint64_t kNearWeights = 96 << 10;

Status run_linear_qd8_qc8w(const Call& c) noexcept {
  const Sizes sizes = read_linear_sizes(c.input(0), c.output(0));
  // Here and below: a single row's weights come from memory, in the time of more products than they are.
  split_gemm(c, sizes, false, sizes.rows == 1 ? 2 : kInt8Gain, [&](const Block& at, size_t part) noexcept {
    c.kernels.linear_qd8_qc8w_f32(
        {c.in<float>(0) + at.row * sizes.k, panels_at(c, at, kernels::panel_bytes_i8(sizes.k)), bias_at(c, at),
         c.out<float>(0) + at.row * sizes.n + at.column, c.scratch<uint8_t>(part), c.output(1).element_count(),
         c.kernels.linear_i8_i8, at.rows, at.columns, sizes.k, uint64_t{sizes.n} * sizes.k > kNearWeights});
  });
  return {};
}

Status check_linear_f32_qc8w(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_float_linear(s));
  ALCOVE_TRY(check_int8_weights(s));
  cost = linear_cost(s, 2);
  return {};
}

Status run_linear_f32_qc8w(const Call& c) noexcept {
  const Sizes sizes = read_linear_sizes(c.input(0), c.output(0));
  split_gemm(c, sizes, false, 1, [&](const Block& at, size_t) noexcept {
    c.kernels.linear_f32_qc8w_f32(
        {c.in<float>(0) + at.row * sizes.k, panels_at(c, at, kernels::panel_bytes_i8(sizes.k)), bias_at(c, at),
         c.out<float>(0) + at.row * sizes.n + at.column, at.rows, at.columns, sizes.k, false});
  });
  return {};
}

Status check_linear_qd8_qb4w(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_float_linear(s));
  ALCOVE_TRY(check_group(s));
  const Sizes sizes = read_linear_sizes(s.input(0), s.output(0));
  const auto group = static_cast<size_t>(s.integer(kGroupSize));
  if (sizes.k > kernels::kMostGroupsQb4 * group) {
    return failure(Code::op_shape, Section::program, "%s: a sum of more than %zu groups", s.name(),
                   kernels::kMostGroupsQb4);
  }
  ALCOVE_TRY(check_packed(s, (sizes.n + 15) / 16, kernels::panel_bytes_qb4(sizes.k, group)));
  ALCOVE_TRY(check_scratch(s, 1, kernels::linear_qd8_qb4w_scratch_bytes(sizes.k, group)));
  cost = linear_cost(s, 1);
  return {};
}

Status run_linear_qd8_qb4w(const Call& c) noexcept {
  const Sizes sizes = read_linear_sizes(c.input(0), c.output(0));
  const auto group = static_cast<size_t>(c.integer(kGroupSize));
  split_gemm(c, sizes, true, sizes.rows == 1 ? 1 : kInt8Gain, [&](const Block& at, size_t part) noexcept {
    c.kernels.linear_qd8_qb4w_f32({c.in<float>(0) + at.row * sizes.k,
                                   panels_at(c, at, kernels::panel_bytes_qb4(sizes.k, group)), bias_at(c, at),
                                   c.out<float>(0) + at.row * sizes.n + at.column, c.scratch<uint8_t>(part), at.rows,
                                   at.columns, sizes.k, group, sizes.n});
  });
  return {};
}

Status check_linear_f32_qb4w(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_float_linear(s));
  ALCOVE_TRY(check_group(s));
  const Sizes sizes = read_linear_sizes(s.input(0), s.output(0));
  ALCOVE_TRY(check_packed(s, (sizes.n + 15) / 16,
                          kernels::panel_bytes_i4(sizes.k, static_cast<size_t>(s.integer(kGroupSize)))));
  cost = linear_cost(s, 2);
  return {};
}

Status run_linear_f32_qb4w(const Call& c) noexcept {
  const Sizes sizes = read_linear_sizes(c.input(0), c.output(0));
  const auto group = static_cast<size_t>(c.integer(kGroupSize));
  split_gemm(c, sizes, false, 1, [&](const Block& at, size_t) noexcept {
    c.kernels.linear_f32_qb4w_f32(
        {c.in<float>(0) + at.row * sizes.k, panels_at(c, at, kernels::panel_bytes_i4(sizes.k, group)), bias_at(c, at),
         c.out<float>(0) + at.row * sizes.n + at.column, at.rows, at.columns, sizes.k, group});
  });
  return {};
}

}  // namespace alcove::ops
