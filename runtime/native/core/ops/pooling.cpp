// Windows of channels-last images: pool2d, adaptive_pool2d, max_pool2d_indices.
#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

// Kernels, strides, dilations and paddings beyond this make no sense, and their products stay far from 2^64.
constexpr int64_t kMostExtent = 1 << 20;

// The attributes of a window follow one another, from `first` on: kernel, stride, padding and dilation, rows before columns;
// then ceil_mode.
constexpr uint8_t kKernel = 0, kStride = 2, kPad = 4, kDilation = 6, kCeil = 8;

// As torch counts them: with ceil_mode a window may hang over the end, but not start there.
uint64_t find_pool_size(const Subject& s, uint8_t first, uint8_t axis, uint64_t in) {
  const auto at = [&](uint8_t property) { return s.integer(static_cast<uint8_t>(first + property + axis)); };
  const auto size = static_cast<int64_t>(in);
  const bool is_ceil = s.integer(static_cast<uint8_t>(first + kCeil)) == 1;
  const int64_t room = size + 2 * at(kPad) - (at(kKernel) - 1) * at(kDilation) - 1;
  if (room + (is_ceil ? at(kStride) - 1 : 0) < 0) return 0;
  int64_t out = (room + (is_ceil ? at(kStride) - 1 : 0)) / at(kStride) + 1;
  if (is_ceil && (out - 1) * at(kStride) >= size + at(kPad)) --out;
  return static_cast<uint64_t>(out);
}

Status check_window(const Subject& s, uint8_t first) {
  for (uint8_t axis = 0; axis < 2; ++axis) {
    const auto at = [&](uint8_t property) { return static_cast<uint8_t>(first + property + axis); };
    ALCOVE_TRY(check_integer(s, at(kKernel), "kernel", 1, kMostExtent));
    ALCOVE_TRY(check_integer(s, at(kStride), "stride", 1, kMostExtent));
    ALCOVE_TRY(check_integer(s, at(kPad), "padding", 0, kMostExtent));
    ALCOVE_TRY(check_integer(s, at(kDilation), "dilation", 1, kMostExtent));
  }
  ALCOVE_TRY(check_integer(s, static_cast<uint8_t>(first + kCeil), "ceil_mode", 0, 1));
  const Tensor& in = s.input(0);
  const uint64_t dims[4] = {in.dims[0], find_pool_size(s, first, 0, in.dims[1]),
                            find_pool_size(s, first, 1, in.dims[2]), in.dims[3]};
  return check_shape(s, s.op.outputs[0], "output", dims, 4);
}

Status check_images(const Subject& s, uint32_t output_dtypes) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 4}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = output_dtypes, .rank = 4}));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, s.input(0).dims[0]));
  return check_dimension(s, s.op.outputs[0], "output", 3, s.input(0).dims[3]);
}

Checked window_cost(const Subject& s, uint8_t first) {
  const auto taps = s.integer(first) * s.integer(static_cast<uint8_t>(first + 1));
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

kernels::PoolWindows make_fixed_windows(const Call& c, uint8_t first) noexcept {
  const auto at = [&](uint8_t property) {
    return static_cast<size_t>(c.integer(static_cast<uint8_t>(first + property)));
  };
  kernels::PoolWindows w = make_adaptive_windows(c);
  w.is_adaptive = false;
  w.kernel_h = at(kKernel);
  w.kernel_w = at(kKernel + 1);
  w.stride_h = at(kStride);
  w.stride_w = at(kStride + 1);
  w.pad_h = at(kPad);
  w.pad_w = at(kPad + 1);
  w.dilation_h = at(kDilation);
  w.dilation_w = at(kDilation + 1);
  return w;
}

// Attributes of pool2d and of max_pool2d_indices before the window; of pool2d after it.
constexpr uint8_t kMode = 0, kAdaptive = 0, kFirst = 1, kCountsPadding = 10, kDivisor = 11;
constexpr int64_t kMax = 0, kAverage = 1;

}  // namespace

Status check_pool2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s, kFloat));
  ALCOVE_TRY(check_integer(s, kMode, "mode", kMax, kAverage));
  ALCOVE_TRY(check_window(s, kFirst));
  ALCOVE_TRY(check_integer(s, kCountsPadding, "count_include_pad", 0, 1));
  ALCOVE_TRY(check_integer(s, kDivisor, "divisor", -int64_t{kMaxDimension}, kMaxDimension));
  if (s.integer(kMode) == kAverage) {
    ALCOVE_TRY(check_integer(s, kFirst + kDilation, "dilation of an average", 1, 1));
    ALCOVE_TRY(check_integer(s, kFirst + kDilation + 1, "dilation of an average", 1, 1));
  }
  cost = window_cost(s, kFirst);
  return {};
}

Status run_pool2d(const Call& c) noexcept {
  c.kernels.pool2d_f32({c.in<float>(0), c.out<float>(0), make_fixed_windows(c, kFirst), c.integer(kMode) == kAverage,
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
  ALCOVE_TRY(check_window(s, kFirst));
  cost = window_cost(s, kFirst);
  return {};
}

Status run_max_pool2d_indices(const Call& c) noexcept {
  const bool is_adaptive = c.integer(kAdaptive) == 1;
  c.kernels.max_pool2d_indices_f32(
      {c.in<float>(0), c.out<int64_t>(0), is_adaptive ? make_adaptive_windows(c) : make_fixed_windows(c, kFirst)});
  return {};
}

}  // namespace alcove::ops
