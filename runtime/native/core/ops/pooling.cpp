// Windows of channels-last images: pool2d, adaptive_pool2d, max_pool2d_indices.
#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

// Kernels, strides, dilations and paddings beyond this make no sense, and their products stay far from 2^64.
constexpr int64_t kMostExtent = 1 << 20;

constexpr OpCodes kFixed = {OpCode::pool2d, OpCode::max_pool2d_indices};
constexpr Integers kKernel{kFixed, "kernel"}, kStride{kFixed, "stride"}, kPad{kFixed, "pad"},
    kDilation{kFixed, "dilation"};
constexpr Integer kCeilMode{kFixed, "ceil_mode"};
constexpr Integer kMode{{OpCode::pool2d, OpCode::adaptive_pool2d}, "mode"};
constexpr Integer kCountsPadding{OpCode::pool2d, "count_include_pad"}, kDivisor{OpCode::pool2d, "divisor"};
constexpr Integer kAdaptive{OpCode::max_pool2d_indices, "adaptive"};
constexpr int64_t kMax = 0, kAverage = 1;  // modes

// As torch counts them: with ceil_mode a window may hang over the end, but not start there.
uint64_t find_pool_size(const Subject& s, uint8_t axis, uint64_t in) {
  const auto at = [&](Integers sizes) { return s.integer(sizes[axis]); };
  const auto size = static_cast<int64_t>(in);
  const bool is_ceil = s.integer(kCeilMode) == 1;
  const int64_t room = size + 2 * at(kPad) - (at(kKernel) - 1) * at(kDilation) - 1;
  if (room + (is_ceil ? at(kStride) - 1 : 0) < 0) return 0;
  int64_t out = (room + (is_ceil ? at(kStride) - 1 : 0)) / at(kStride) + 1;
  if (is_ceil && (out - 1) * at(kStride) >= size + at(kPad)) --out;
  return static_cast<uint64_t>(out);
}

Status check_window(const Subject& s) {
  for (uint8_t axis = 0; axis < 2; ++axis) {
    ALCOVE_TRY(check_integer(s, kKernel[axis], "kernel", 1, kMostExtent));
    ALCOVE_TRY(check_integer(s, kStride[axis], "stride", 1, kMostExtent));
    ALCOVE_TRY(check_integer(s, kPad[axis], "padding", 0, kMostExtent));
    ALCOVE_TRY(check_integer(s, kDilation[axis], "dilation", 1, kMostExtent));
  }
  ALCOVE_TRY(check_integer(s, kCeilMode, "ceil_mode", 0, 1));
  const Tensor& in = s.input(0);
  const uint64_t dims[4] = {in.dims[0], find_pool_size(s, 0, in.dims[1]), find_pool_size(s, 1, in.dims[2]), in.dims[3]};
  return check_shape(s, s.op.outputs[0], "output", dims, 4);
}

Status check_images(const Subject& s, uint32_t output_dtypes) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 4}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = output_dtypes, .rank = 4}));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, s.input(0).dims[0]));
  return check_dimension(s, s.op.outputs[0], "output", 3, s.input(0).dims[3]);
}

Checked window_cost(const Subject& s) {
  const auto taps = s.integer(kKernel[0]) * s.integer(kKernel[1]);
  return elements(s.output(0)) * (static_cast<uint64_t>(taps) + 1) + pixel_cost(s.output(0));
}

Checked adaptive_cost(const Subject& s) {
  const Tensor &in = s.input(0), &out = s.output(0);
  return elements(out) * (uint64_t{in.dims[1]} / out.dims[1] + 2) * (uint64_t{in.dims[2]} / out.dims[2] + 2) +
         pixel_cost(out);
}

kernels::PoolWindows make_adaptive_windows(const Call& c) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  kernels::PoolWindows w{};
  w.batch = in.dims[0];
  w.in_h = in.dims[1];
  w.in_w = in.dims[2];
  w.channels = in.dims[3];
  w.out_h = out.dims[1];
  w.out_w = out.dims[2];
  w.is_adaptive = true;
  return w;
}

kernels::PoolWindows make_fixed_windows(const Call& c) noexcept {
  const auto size = [&](Integer attribute) { return static_cast<size_t>(c.integer(attribute)); };
  kernels::PoolWindows w = make_adaptive_windows(c);
  w.is_adaptive = false;
  w.kernel_h = size(kKernel[0]);
  w.kernel_w = size(kKernel[1]);
  w.stride_h = size(kStride[0]);
  w.stride_w = size(kStride[1]);
  w.pad_h = size(kPad[0]);
  w.pad_w = size(kPad[1]);
  w.dilation_h = size(kDilation[0]);
  w.dilation_w = size(kDilation[1]);
  return w;
}

}  // namespace

Status check_pool2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s, kFloat));
  ALCOVE_TRY(check_integer(s, kMode, "mode", kMax, kAverage));
  ALCOVE_TRY(check_window(s));
  ALCOVE_TRY(check_integer(s, kCountsPadding, "count_include_pad", 0, 1));
  ALCOVE_TRY(check_integer(s, kDivisor, "divisor", -int64_t{kMaxDimension}, kMaxDimension));
  if (s.integer(kMode) == kAverage) {
    ALCOVE_TRY(check_integer(s, kDilation[0], "dilation of an average", 1, 1));
    ALCOVE_TRY(check_integer(s, kDilation[1], "dilation of an average", 1, 1));
  }
  cost = window_cost(s);
  return {};
}

Status run_pool2d(const Call& c) noexcept {
  c.kernels.pool2d_f32({c.in<float>(0), c.out<float>(0), make_fixed_windows(c), c.integer(kMode) == kAverage,
                        c.integer(kCountsPadding) == 1, c.integer(kDivisor)});
  return {};
}

Status check_adaptive_pool2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s, kFloat));
  ALCOVE_TRY(check_integer(s, kMode, "mode", kMax, kAverage));
  cost = adaptive_cost(s);
  return {};
}

Status run_adaptive_pool2d(const Call& c) noexcept {
  c.kernels.pool2d_f32(
      {c.in<float>(0), c.out<float>(0), make_adaptive_windows(c), c.integer(kMode) == kAverage, false, 0});
  return {};
}

Status check_max_pool2d_indices(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s, make_set({DType::i64})));
  ALCOVE_TRY(check_integer(s, kAdaptive, "adaptive", 0, 1));
  if (s.integer(kAdaptive) == 1) {
    cost = adaptive_cost(s);
    return {};
  }
  ALCOVE_TRY(check_window(s));
  cost = window_cost(s);
  return {};
}

Status run_max_pool2d_indices(const Call& c) noexcept {
  const bool is_adaptive = c.integer(kAdaptive) == 1;
  c.kernels.max_pool2d_indices_f32(
      {c.in<float>(0), c.out<int64_t>(0), is_adaptive ? make_adaptive_windows(c) : make_fixed_windows(c)});
  return {};
}

}  // namespace alcove::ops
