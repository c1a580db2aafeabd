// The loops of depthwise convolution, for vectors V of kWidth channels; each instruction set brings its own V and includes
// this file.  Everything here has internal linkage, so that no copy for a wide instruction set is chosen for all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

namespace alcove::kernels {

namespace {

// One channel: the reference, and what a multiplier above 1 runs on everywhere.
struct Scalar {
  static constexpr size_t kWidth = 1;
  using Register = float;
  static Register zero() noexcept { return 0.0f; }
  static Register fill(float v) noexcept { return v; }
  static Register load(const float* p, size_t) noexcept { return *p; }
  static void store(float* p, size_t, Register v) noexcept { *p = canonical(v); }
  static Register fma(Register x, Register w, Register y) noexcept { return __builtin_fmaf(x, w, y); }
  static Register clamp(Register y, Register low, Register high) noexcept {
    const float raised = y < low ? low : y;
    return raised > high ? high : raised;
  }
};

// kPixels neighbours in a row of the output, channels [o, o + lanes).  Columns are inside the input if kAllInside.
template <class V, int kPixels, bool kAllInside>
void tile(const DepthwiseConv2dF32& a, size_t batch, int64_t top, int64_t left, size_t o, size_t lanes,
          float* output) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  const size_t channel = a.multiplier == 1 ? o : o / a.multiplier;
  typename V::Register y[kPixels];
  for (int p = 0; p < kPixels; ++p) y[p] = V::load(a.weights + o, lanes);
  const float* weights = a.weights + outputs + o;
  for (size_t tap_row = 0; tap_row < a.kernel_h; ++tap_row) {
    const int64_t row = top + static_cast<int64_t>(tap_row * a.dilation_h);
    const bool is_row = row >= 0 && row < static_cast<int64_t>(a.in_h);
    const float* line = is_row ? a.input + (batch * a.in_h + static_cast<size_t>(row)) * a.in_w * a.channels : nullptr;
    int64_t column = left;
    for (size_t tap = 0; tap < a.kernel_w; ++tap, weights += outputs, column += static_cast<int64_t>(a.dilation_w)) {
      const typename V::Register w = V::load(weights, lanes);
      for (int p = 0; p < kPixels; ++p) {
        const int64_t at = column + p * static_cast<int64_t>(a.stride_w);
        const bool is_inside = is_row && (kAllInside || (at >= 0 && at < static_cast<int64_t>(a.in_w)));
        const typename V::Register x =
            is_inside ? V::load(line + static_cast<size_t>(at) * a.channels + channel, lanes) : V::zero();
        y[p] = V::fma(x, w, y[p]);
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    if (a.is_clamped) y[p] = V::clamp(y[p], V::fill(a.low), V::fill(a.high));
    V::store(output + static_cast<size_t>(p) * outputs + o, lanes, y[p]);
  }
}

template <class V, int kPixels, bool kAllInside>
void channels(const DepthwiseConv2dF32& a, size_t batch, int64_t top, int64_t left, float* output) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  for (size_t o = 0; o < outputs; o += V::kWidth) {
    const size_t lanes = outputs - o < V::kWidth ? outputs - o : V::kWidth;
    tile<V, kPixels, kAllInside>(a, batch, top, left, o, lanes, output);
  }
}

template <class V>
void convolve(const DepthwiseConv2dF32& a) noexcept {
  constexpr size_t kPixels = 4;
  const size_t outputs = a.channels * a.multiplier;
  const int64_t reach = static_cast<int64_t>((a.kernel_w - 1) * a.dilation_w);
  const int64_t stride = static_cast<int64_t>(a.stride_w);
  float* output = a.output;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    for (size_t row = 0; row < a.out_h; ++row) {
      const int64_t top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
      for (size_t column = 0; column < a.out_w;) {
        const int64_t left = static_cast<int64_t>(column) * stride - static_cast<int64_t>(a.pad_left);
        const int64_t last = left + static_cast<int64_t>(kPixels - 1) * stride + reach;
        if (left >= 0 && last < static_cast<int64_t>(a.in_w) && column + kPixels <= a.out_w) {
          channels<V, kPixels, true>(a, batch, top, left, output);
          column += kPixels;
          output += kPixels * outputs;
        } else {
          channels<V, 1, false>(a, batch, top, left, output);
          column += 1;
          output += outputs;
        }
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
