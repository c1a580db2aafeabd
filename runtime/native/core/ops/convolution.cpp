// Convolutions of channels-last images: conv2d, depthwise_conv2d, conv_transpose2d.  Other forms of them are in
// convolution_forms.cpp.
#include "core/ops/convolution.h"

#include "core/ops/partition.h"
#include "core/ops/gemm.h"

namespace alcove::ops {

namespace {

constexpr OpCodes kBoth = {OpCode::conv2d, OpCode::depthwise_conv2d};
constexpr Integers kKernel{kBoth, "kernel"}, kStride{kBoth, "stride"}, kDilation{kBoth, "dilation"};
constexpr Integers kPadBefore{kBoth, "pad", {"_top", "_left"}}, kPadAfter{kBoth, "pad", {"_bottom", "_right"}};

Status check_window(const Subject& s) {
  ALCOVE_TRY(check_pair(s, kKernel, "kernel", 1));
  ALCOVE_TRY(check_pair(s, kStride, "stride", 1));
  ALCOVE_TRY(check_pair(s, kPadBefore, "padding", 0));
  ALCOVE_TRY(check_pair(s, kPadAfter, "padding", 0));
  return check_pair(s, kDilation, "dilation", 1);
}

Status check_convolved(const Subject& s, uint64_t channels) {
  const Tensor& in = s.input(0);
  const auto size = [&](size_t axis) {
    return find_convolution_size(in.dims[1 + axis], s.integer(kPadBefore[axis]), s.integer(kPadAfter[axis]),
                                 s.integer(kKernel[axis]), s.integer(kStride[axis]), s.integer(kDilation[axis]));
  };
  const uint64_t dims[4] = {in.dims[0], size(0), size(1), channels};
  return check_shape(s, s.op.outputs[0], "output", dims, 4);
}

template <typename Args>
void set_window(const Call& c, Args& args) noexcept {
  const auto size = [&c](Integer attribute) { return static_cast<size_t>(c.integer(attribute)); };
  args.kernel_h = size(kKernel[0]);
  args.kernel_w = size(kKernel[1]);
  args.stride_h = size(kStride[0]);
  args.stride_w = size(kStride[1]);
  args.pad_top = size(kPadBefore[0]);
  args.pad_left = size(kPadBefore[1]);
  args.dilation_h = size(kDilation[0]);
  args.dilation_w = size(kDilation[1]);
}

// Both images have channels for `groups` groups.
Status check_groups(const Subject& s, Integer attribute) {
  ALCOVE_TRY(check_integer(s, attribute, "groups", 1, kMaxDimension));
  const auto groups = static_cast<uint64_t>(s.integer(attribute));
  if (s.input(0).dims[3] % groups == 0 && s.output(0).dims[3] % groups == 0) return {};
  return failure(Code::op_shape, Section::program,
                 "%s: %" PRIu32 " and %" PRIu32 " channels are not in %" PRIu64 " groups", s.name(), s.input(0).dims[3],
                 s.output(0).dims[3], groups);
}

// Of conv2d: weights of several groups side by side have three dimensions.
bool shares_lanes(const Tensor& weight) noexcept { return weight.rank == 3; }

constexpr Integer kGroups{OpCode::conv2d, "groups"}, kHasResidual{OpCode::conv2d, "has_residual"};
constexpr ActivationAttributes kConvActivation{OpCode::conv2d}, kDepthwiseActivation{OpCode::depthwise_conv2d};

}  // namespace

Status check_conv2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_image(s, s.op.inputs[0], "input"));
  ALCOVE_TRY(check_image(s, s.op.outputs[0], "output"));
  ALCOVE_TRY(check_window(s));
  ALCOVE_TRY(check_groups(s, kGroups));
  ALCOVE_TRY(check_residual(s, kHasResidual, 2));
  ALCOVE_TRY(check_activation(s, kConvActivation, Activation::hardsigmoid));
  const Tensor &in = s.input(0), &weight = s.input(1), &out = s.output(0);
  const auto groups = static_cast<uint64_t>(s.integer(kGroups));
  const uint64_t in_c = in.dims[3] / groups, out_c = out.dims[3] / groups;
  const auto taps = static_cast<uint64_t>(s.integer(kKernel[0]) * s.integer(kKernel[1]));
  const Checked patch = Checked(taps) * in_c;
  if (!patch.is_at_most(kMaxDimension - 1)) {
    return failure(Code::op_shape, Section::program, "conv2d: a patch has too many elements");
  }
  if (weight.layout == Layout::panel16) {
    ALCOVE_TRY(check_integer(s, kGroups, "groups, for weights in panels,", 1, 1));
    ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight",
                          {.dtypes = kFloat, .rank = 2, .is_constant = true, .layout = Layout::panel16}));
    const uint64_t dims[2] = {out_c, patch.value()};
    ALCOVE_TRY(check_shape(s, s.op.inputs[1], "weight", dims, 2));
  } else if (shares_lanes(weight)) {
    if (!kernels::conv2d_shares_lanes(groups, in_c, out_c, patch.value())) {
      return failure(Code::op_shape, Section::program,
                     "conv2d: %" PRIu64 " groups of %" PRIu64 " inputs and %" PRIu64 " outputs, %" PRIu64
                     " numbers of a patch, don't share vectors of 16",
                     groups, in_c, out_c, patch.value())
          .in_tensor(s.op.inputs[1]);
    }
    ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kFloat, .rank = 3}));
    const uint64_t dims[3] = {out.dims[3] / kernels::kGroupLanes, patch.value() + 1, kernels::kGroupLanes};
    ALCOVE_TRY(check_shape(s, s.op.inputs[1], "weight", dims, 3));
  } else {
    ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kFloat, .rank = 4}));
    const uint64_t dims[4] = {groups, (out_c + 15) / 16, patch.value() + 1, 16};
    ALCOVE_TRY(check_shape(s, s.op.inputs[1], "weight", dims, 4));
  }
  ALCOVE_TRY(check_convolved(s, out.dims[3]));
  const auto size = [&s](Integer attribute) { return static_cast<size_t>(s.integer(attribute)); };
  const kernels::Conv2dSizes sizes = {in_c,
                                      out.dims[2],
                                      out_c,
                                      groups,
                                      size(kKernel[0]),
                                      size(kKernel[1]),
                                      size(kStride[1]),
                                      size(kDilation[0]),
                                      size(kDilation[1])};
  ALCOVE_TRY(check_scratch(s, 1, kernels::conv2d_scratch_bytes<Checked>(sizes, patch.value())));
  cost = Checked(out.dims[0]) * out.dims[1] * out.dims[2] * (weight.size_bytes / sizeof(float));
  return {};
}

Status run_conv2d(const Call& c) noexcept {
  kernels::Conv2dF32 args{};
  set_images(c, args);
  set_window(c, args);
  args.activation = c.activation(kConvActivation);
  args.groups = static_cast<size_t>(c.integer(kGroups));
  args.in_c = c.input(0).dims[3] / args.groups;
  args.out_c = c.output(0).dims[3] / args.groups;
  args.panels = c.in<float>(1);
  args.residual = c.integer(kHasResidual) == 1 ? c.in<float>(2) : nullptr;
  args.linear = c.kernels.linear_f32;
  args.narrow = c.kernels.conv2d_narrow;
  args.of_groups = shares_lanes(c.input(1)) ? c.kernels.conv2d_groups : nullptr;
  args.scratch_bytes = c.output(1).dims[0];
  const uint64_t work = c.output(0).element_count() * args.kernel_h * args.kernel_w * args.in_c;
  const bool is_gemm = make_column(args) && args.groups == 1;
  if (is_gemm && c.pool != nullptr) {  // the same sums; of few pixels, panels can be shared out
    split_linear(c, {.input = args.input,
                     .panels = args.panels,
                     .output = args.output,
                     .m = args.out_h,
                     .n = args.out_c,
                     .k = args.in_c,
                     .residual = args.residual,
                     .activation = args.activation});
    return {};
  }
  partition_images(c, args, make_row_slide(args), make_column_slide(args), 1, work,
                   [&c](kernels::Conv2dF32 partition, size_t part) noexcept {
                     partition.scratch = c.scratch<float>(part);
                     c.kernels.conv2d_f32(partition);
                   });
  return {};
}

Status check_depthwise_conv2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_image(s, s.op.inputs[0], "input"));
  ALCOVE_TRY(check_image(s, s.op.outputs[0], "output"));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kFloat, .rank = 2}));
  ALCOVE_TRY(check_window(s));
  ALCOVE_TRY(check_activation(s, kDepthwiseActivation, Activation::hardsigmoid));
  const uint32_t channels = s.input(0).dims[3], outputs = s.output(0).dims[3];
  if (outputs % channels != 0) {
    return failure(Code::op_shape, Section::program, "depthwise_conv2d: %" PRIu32 " outputs for %" PRIu32 " channels",
                   outputs, channels);
  }
  const auto taps = static_cast<uint64_t>(s.integer(kKernel[0]) * s.integer(kKernel[1]));
  const uint64_t dims[2] = {taps + 1, outputs};
  ALCOVE_TRY(check_shape(s, s.op.inputs[1], "weight", dims, 2));
  ALCOVE_TRY(check_convolved(s, outputs));
  cost = elements(s.output(0)) * (taps + 1) + pixel_cost(s.output(0));
  return {};
}

Status run_depthwise_conv2d(const Call& c) noexcept {
  kernels::DepthwiseConv2dF32 args{};
  set_images(c, args);
  set_window(c, args);
  args.activation = c.activation(kDepthwiseActivation);
  args.channels = c.input(0).dims[3];
  args.multiplier = c.output(0).dims[3] / args.channels;
  args.weights = c.in<float>(1);
  const uint64_t work = c.output(0).element_count() * args.kernel_h * args.kernel_w * kDepthwiseWork;
  partition_images(c, args, make_row_slide(args), make_column_slide(args), 1, work,
                   [&c](const kernels::DepthwiseConv2dF32& partition, size_t) noexcept {
                     c.kernels.depthwise_conv2d_f32(partition);
                   });
  return {};
}

namespace {

constexpr OpCode kTransposed = OpCode::conv_transpose2d;
constexpr Integers kTKernel{{kTransposed}, "kernel"}, kTStride{{kTransposed}, "stride"};
constexpr Integers kTPad{{kTransposed}, "pad", {"_top", "_left"}}, kTDilation{{kTransposed}, "dilation"};
constexpr Integer kTGroups{kTransposed, "groups"};

}  // namespace

Status check_conv_transpose2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_image(s, s.op.inputs[0], "input"));
  ALCOVE_TRY(check_image(s, s.op.outputs[0], "output"));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kFloat, .rank = 1}));
  ALCOVE_TRY(check_pair(s, kTKernel, "kernel", 1));
  ALCOVE_TRY(check_pair(s, kTStride, "stride", 1));
  ALCOVE_TRY(check_pair(s, kTPad, "padding", 0));
  ALCOVE_TRY(check_pair(s, kTDilation, "dilation", 1));
  ALCOVE_TRY(check_groups(s, kTGroups));
  const Tensor &in = s.input(0), &out = s.output(0);
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, in.dims[0]));
  const auto groups = static_cast<uint64_t>(s.integer(kTGroups));
  const uint64_t in_c = in.dims[3] / groups, out_c = out.dims[3] / groups;
  const auto taps = static_cast<uint64_t>(s.integer(kTKernel[0]) * s.integer(kTKernel[1]));
  const auto phases = static_cast<uint64_t>(s.integer(kTStride[0]) * s.integer(kTStride[1]));
  const Checked patch = Checked(taps) * in_c;
  const Checked floats = Checked(groups) * ((out_c + 15) / 16 * 16) * (patch + phases);
  if (!patch.is_at_most(kMaxDimension) || !floats.is_at_most(kMaxDimension)) {
    return failure(Code::op_shape, Section::program, "conv_transpose2d: the weights have too many elements");
  }
  ALCOVE_TRY(check_dimension(s, s.op.inputs[1], "weight", 0, floats.value()));
  ALCOVE_TRY(check_scratch(s, 1, kernels::conv_transpose2d_scratch_bytes(taps, in_c, out_c)));
  // Each pixel belongs to one phase, whose panels are no larger than those of all taps; every phase looks at every tap.
  cost = Checked(out.dims[0]) * out.dims[1] * out.dims[2] * groups * ((out_c + 15) / 16 * 16) * (patch + 1) +
         Checked(groups) * phases * (s.integer(kTKernel[0]) + s.integer(kTKernel[1])) +
         Checked(out.dims[0]) * out.dims[1] * out.dims[2] * groups * taps;
  return {};
}

Status run_conv_transpose2d(const Call& c) noexcept {
  const auto size = [&c](Integer attribute) { return static_cast<size_t>(c.integer(attribute)); };
  kernels::ConvTranspose2dF32 args{};
  set_images(c, args);
  args.kernel_h = size(kTKernel[0]);
  args.kernel_w = size(kTKernel[1]);
  args.stride_h = size(kTStride[0]);
  args.stride_w = size(kTStride[1]);
  args.pad_top = size(kTPad[0]);
  args.pad_left = size(kTPad[1]);
  args.dilation_h = size(kTDilation[0]);
  args.dilation_w = size(kTDilation[1]);
  args.groups = size(kTGroups);
  args.in_c = c.input(0).dims[3] / args.groups;
  args.out_c = c.output(0).dims[3] / args.groups;
  args.weights = c.in<float>(1);
  args.scratch = c.out<float>(1);
  args.linear = c.kernels.linear_f32;
  c.kernels.conv_transpose2d_f32(args);
  return {};
}

}  // namespace alcove::ops
