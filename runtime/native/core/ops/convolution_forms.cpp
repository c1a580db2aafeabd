// Convolutions in forms that the exporter chooses: winograd_conv2d, separable_conv2d, pointwise_conv2d.
#include "core/ops/partition.h"
#include "core/ops/convolution.h"
#include "core/ops/gemm.h"

namespace alcove::ops {

namespace {

constexpr OpCode kWinograd = OpCode::winograd_conv2d;
constexpr Integers kWPadBefore{{kWinograd}, "pad", {"_top", "_left"}},
    kWPadAfter{{kWinograd}, "pad", {"_bottom", "_right"}};
constexpr Integer kWHasResidual{kWinograd, "has_residual"};
constexpr ActivationAttributes kWActivation{kWinograd};

constexpr OpCode kSeparable = OpCode::separable_conv2d;
constexpr Integers kSKernel{{kSeparable}, "kernel"}, kSStride{{kSeparable}, "stride"};
constexpr Integers kSPadBefore{{kSeparable}, "pad", {"_top", "_left"}},
    kSPadAfter{{kSeparable}, "pad", {"_bottom", "_right"}};
constexpr Integer kSRows{kSeparable, "rows"}, kSHasExpand{kSeparable, "has_expand"};
constexpr Integer kSHasResidual{kSeparable, "has_residual"};
constexpr ActivationAttributes kSAfterExpand{kSeparable, "expand_"}, kSAfterDepthwise{kSeparable, "depthwise_"},
    kSActivation{kSeparable};

constexpr ActivationAttributes kPActivation{OpCode::pointwise_conv2d};

// Paddings are less than the kernel, so that every output looks at the input.
Status check_separable_window(const Subject& s) {
  ALCOVE_TRY(check_pair(s, kSKernel, "kernel", 1));
  ALCOVE_TRY(check_pair(s, kSStride, "stride", 1));
  for (const Integers pad : {kSPadBefore, kSPadAfter}) {
    ALCOVE_TRY(check_integer(s, pad[0], "padding", 0, s.integer(kSKernel[0]) - 1));
    ALCOVE_TRY(check_integer(s, pad[1], "padding", 0, s.integer(kSKernel[1]) - 1));
  }
  return check_integer(s, kSRows, "rows", 1, kMostExtent);
}

}  // namespace

Status check_winograd_conv2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_image(s, s.op.inputs[0], "input"));
  ALCOVE_TRY(check_image(s, s.op.outputs[0], "output"));
  ALCOVE_TRY(check_pair(s, kWPadBefore, "padding", 0));
  ALCOVE_TRY(check_pair(s, kWPadAfter, "padding", 0));
  ALCOVE_TRY(check_residual(s, kWHasResidual, 2));
  ALCOVE_TRY(check_activation(s, kWActivation, Activation::hardsigmoid));
  const Tensor &in = s.input(0), &out = s.output(0);
  const uint32_t in_c = in.dims[3], out_c = out.dims[3];
  const Checked floats = kernels::winograd_weight_floats<Checked>(in_c, out_c);
  if (!floats.is_at_most(kMaxDimension)) {
    return failure(Code::op_shape, Section::program, "winograd_conv2d: the weights have too many elements");
  }
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kFloat, .rank = 1}));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[1], "weight", 0, floats.value()));
  const uint64_t dims[4] = {
      in.dims[0], find_convolution_size(in.dims[1], s.integer(kWPadBefore[0]), s.integer(kWPadAfter[0]), 3, 1, 1),
      find_convolution_size(in.dims[2], s.integer(kWPadBefore[1]), s.integer(kWPadAfter[1]), 3, 1, 1), out_c};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 4));
  ALCOVE_TRY(check_scratch(s, 1, kernels::winograd_scratch_bytes<Checked>(in_c, out_c)));
  // Each tile: the products, and a dozen operations a transformed number.
  cost = Checked(out.dims[0]) * ((out.dims[1] + 3) / 4) * ((out.dims[2] + 3) / 4) *
         (floats + (Checked(in_c) + out_c) * (kernels::kWinogradPlanes * 12));
  return {};
}

Status run_winograd_conv2d(const Call& c) noexcept {
  kernels::WinogradConv2dF32 args{};
  set_images(c, args);
  args.in_c = c.input(0).dims[3];
  args.out_c = c.output(0).dims[3];
  args.pad_top = static_cast<size_t>(c.integer(kWPadBefore[0]));
  args.pad_left = static_cast<size_t>(c.integer(kWPadBefore[1]));
  args.weights = c.in<float>(1);
  args.residual = c.integer(kWHasResidual) == 1 ? c.in<float>(2) : nullptr;
  args.linear = c.kernels.linear_f32;
  args.activation = c.activation(kWActivation);
  // Which numbers are added depends on where a pixel lies in its tile: tiles stay whole.
  constexpr Slide kSlide = {1, 3};
  const uint64_t work = c.output(0).element_count() * (args.in_c + args.out_c / 4) * kernels::kWinogradPlanes / 16;
  partition_images(c, args, kSlide, kSlide, kernels::kWinogradOutput, work,
                   [&c](kernels::WinogradConv2dF32 partition, size_t part) noexcept {
                     partition.scratch = c.scratch<float>(part);
                     c.kernels.winograd_conv2d_f32(partition);
                   });
  return {};
}

Status check_separable_conv2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_image(s, s.op.inputs[0], "input"));
  ALCOVE_TRY(check_image(s, s.op.outputs[0], "output"));
  ALCOVE_TRY(check_separable_window(s));
  ALCOVE_TRY(check_integer(s, kSHasExpand, "has_expand", 0, 1));
  const bool has_expand = s.integer(kSHasExpand) == 1;
  const uint32_t weights = has_expand ? 2 : 1;  // where the depthwise ones are
  ALCOVE_TRY(check_residual(s, kSHasResidual, weights + 2));
  for (const ActivationAttributes activation : {kSAfterExpand, kSAfterDepthwise, kSActivation}) {
    ALCOVE_TRY(check_activation(s, activation, Activation::hardsigmoid));
  }
  const Tensor &in = s.input(0), &depthwise = s.input(weights), &out = s.output(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[weights], "depthwise weight", {.dtypes = kFloat, .rank = 2}));
  const uint64_t channels = depthwise.dims[1];
  const auto taps = static_cast<uint64_t>(s.integer(kSKernel[0]) * s.integer(kSKernel[1]));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[weights], "depthwise weight", 0, taps + 1));
  if (has_expand) {
    ALCOVE_TRY(check_panels(s, s.op.inputs[1], "expanding weight", channels, in.dims[3]));
  } else {
    ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "input", 3, channels));
  }
  ALCOVE_TRY(check_panels(s, s.op.inputs[weights + 1], "projecting weight", out.dims[3], channels));
  const uint64_t dims[4] = {in.dims[0],
                            find_convolution_size(in.dims[1], s.integer(kSPadBefore[0]), s.integer(kSPadAfter[0]),
                                                  s.integer(kSKernel[0]), s.integer(kSStride[0]), 1),
                            find_convolution_size(in.dims[2], s.integer(kSPadBefore[1]), s.integer(kSPadAfter[1]),
                                                  s.integer(kSKernel[1]), s.integer(kSStride[1]), 1),
                            out.dims[3]};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 4));
  const auto size = [&s](Integer attribute) { return static_cast<size_t>(s.integer(attribute)); };
  ALCOVE_TRY(
      check_scratch(s, 1,
                    kernels::separable_scratch_bytes<Checked>(has_expand, channels, in.dims[2], out.dims[2],
                                                              size(kSRows), size(kSKernel[0]), size(kSStride[0]))));
  const Checked pixels = Checked(out.dims[0]) * out.dims[1] * out.dims[2];
  cost = pixels * channels * (taps + 1) + pixels * (s.input(weights + 1).size_bytes / sizeof(float));
  if (has_expand) cost = cost + Checked(in.dims[0]) * in.dims[1] * in.dims[2] * (s.input(1).size_bytes / sizeof(float));
  return {};
}

Status run_separable_conv2d(const Call& c) noexcept {
  const auto size = [&c](Integer attribute) { return static_cast<size_t>(c.integer(attribute)); };
  const uint32_t weights = c.integer(kSHasExpand) == 1 ? 2 : 1;
  kernels::SeparableConv2dF32 args{};
  set_images(c, args);
  args.expand = weights == 2 ? c.in<float>(1) : nullptr;
  args.depthwise = c.in<float>(weights);
  args.project = c.in<float>(weights + 1);
  args.residual = c.integer(kSHasResidual) == 1 ? c.in<float>(weights + 2) : nullptr;
  args.linear = c.kernels.linear_f32;
  args.depthwise_conv2d = c.kernels.depthwise_conv2d_f32;
  args.in_c = c.input(0).dims[3];
  args.channels = c.input(weights).dims[1];
  args.out_c = c.output(0).dims[3];
  args.rows = size(kSRows);
  args.kernel_h = size(kSKernel[0]);
  args.kernel_w = size(kSKernel[1]);
  args.stride_h = size(kSStride[0]);
  args.stride_w = size(kSStride[1]);
  args.pad_top = size(kSPadBefore[0]);
  args.pad_left = size(kSPadBefore[1]);
  args.after_expand = c.activation(kSAfterExpand);
  args.after_depthwise = c.activation(kSAfterDepthwise);
  args.activation = c.activation(kSActivation);
  // Lines of the expanded image that two partitions look at are computed in both.
  const uint64_t pixels = uint64_t{args.batch} * args.out_h * args.out_w;
  const uint64_t expanded = args.expand != nullptr ? c.input(0).element_count() * args.channels : 0;
  const uint64_t work =
      pixels * args.channels * (args.out_c + args.kernel_h * args.kernel_w * kDepthwiseWork) + expanded;
  partition_images(c, args, {args.stride_h, args.kernel_h}, {args.stride_w, args.kernel_w}, 1, work,
                   [&c](kernels::SeparableConv2dF32 partition, size_t part) noexcept {
                     partition.scratch = c.scratch<float>(part);
                     c.kernels.separable_conv2d_f32(partition);
                   });
  return {};
}

Status check_pointwise_conv2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 3}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight", {.dtypes = kFloat, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat, .rank = 3}));
  ALCOVE_TRY(check_activation(s, kPActivation, Activation::hardsigmoid));
  const Tensor& in = s.input(0);
  const uint32_t channels = in.dims[1], pixels = in.dims[2], out_c = s.input(1).dims[0];
  ALCOVE_TRY(check_dimension(s, s.op.inputs[1], "weight", 1, channels + uint64_t{1}));
  const uint64_t dims[3] = {in.dims[0], out_c, pixels};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 3));
  ALCOVE_TRY(check_scratch(s, 1, kernels::pointwise_conv2d_scratch_floats<Checked>(pixels, channels) * sizeof(float)));
  // Packing is charged as one more output.
  cost = Checked(in.dims[0]) * ((pixels + 15ull) / 16 * 16) * (Checked(channels) + 2) * (Checked(out_c) + 1);
  return {};
}

Status run_pointwise_conv2d(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const size_t channels = in.dims[1], pixels = in.dims[2], out_c = c.input(1).dims[0];
  constexpr size_t kTile = 48;  // what all instruction sets multiply at once, so that a part begins with a whole tile
  const size_t tiles = (pixels + kTile - 1) / kTile;
  for (size_t image = 0; image < in.dims[0]; ++image) {
    c.split(tiles, uint64_t{pixels} * channels * out_c, [&](size_t first, size_t end, size_t part) noexcept {
      const size_t from = first * kTile, to = end * kTile < pixels ? end * kTile : pixels;
      c.kernels.pointwise_conv2d_f32({.input = c.in<float>(0) + image * channels * pixels + from,
                                      .weight = c.in<float>(1),
                                      .output = c.out<float>(0) + image * out_c * pixels + from,
                                      .scratch = c.scratch<float>(part),
                                      .linear = c.kernels.linear_f32,
                                      .pixels = to - from,
                                      .stride = pixels,
                                      .channels = channels,
                                      .out_c = out_c,
                                      .activation = c.activation(kPActivation)});
    });
  }
  return {};
}

}  // namespace alcove::ops
