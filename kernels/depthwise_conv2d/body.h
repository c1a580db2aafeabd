// The loops of depthwise convolution, for vectors V of channels (kernels/vectors); each instruction set brings its own V and
// includes this file.  Everything here has internal linkage, so that no copy for a wide instruction set is chosen for all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/depthwise_conv2d/depthwise_conv2d.h"

namespace alcove::kernels {

namespace {

// Where some neighbours in a row of the output look: the input's row and column of their first tap, channels [o, o + lanes).
struct Window {
  size_t batch;
  int64_t top, left;
  size_t o, lanes;
  float* output;  // of the first, channel 0
};

// The input's row, null outside the input.
inline const float* line_at(const DepthwiseConv2dF32& a, const Window& at, size_t tap_row) noexcept {
  const int64_t row = at.top + static_cast<int64_t>(tap_row * a.dilation_h);
  if (row < 0 || row >= static_cast<int64_t>(a.in_h)) return nullptr;
  return a.input + (at.batch * a.in_h + static_cast<size_t>(row)) * a.in_w * a.channels;
}

template <class V>
typename V::Register input_at(const DepthwiseConv2dF32& a, const Window& at, const float* line, int64_t column) noexcept {
  if (line == nullptr || column < 0 || column >= static_cast<int64_t>(a.in_w)) return V::fill(0.0f);
  const size_t channel = a.multiplier == 1 ? at.o : at.o / a.multiplier;
  return V::load(line + static_cast<size_t>(column) * a.channels + channel, at.lanes);
}

// Kernels of kKernelW columns side by side: each column of the input is loaded once for all pixels that it takes part in.
template <class V, int kPixels, int kKernelW, int kStride>
[[gnu::noinline]] void tile(const DepthwiseConv2dF32& a, const Window& at) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernelW;
  const size_t channels = a.channels;
  const float* weights = a.weights + at.o;
  const typename V::Mask used = V::mask(at.lanes);
  typename V::Register y[kPixels];
  const typename V::Register bias = V::load_masked(weights, used);
  for (int p = 0; p < kPixels; ++p) y[p] = bias;
  // Which lanes of a column are read: none of one outside the input, whose address is never used.
  typename V::Mask inside[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    const int64_t column = at.left + c;
    inside[c] = V::mask(column >= 0 && column < static_cast<int64_t>(a.in_w) ? at.lanes : 0);
  }
  const int64_t start = at.left * static_cast<int64_t>(channels) + static_cast<int64_t>(at.o);
  for (size_t tap_row = 0; tap_row < a.kernel_h; ++tap_row) {
    const float* line = line_at(a, at, tap_row);
    typename V::Register x[kColumns];
    if (line != nullptr) {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        x[c] = V::load_masked(line + (start + c * static_cast<int64_t>(channels)), inside[c]);
      }
    } else {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) x[c] = V::fill(0.0f);
    }
#pragma GCC unroll 16
    for (int tap = 0; tap < kKernelW; ++tap) {
      const typename V::Register w = V::load_masked(weights += channels, used);
#pragma GCC unroll 16
      for (int p = 0; p < kPixels; ++p) y[p] = V::fma(x[p * kStride + tap], w, y[p]);
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    V::store(at.output + static_cast<size_t>(p) * channels + at.o, at.lanes, activated<V>(a.activation, y[p]));
  }
}

// One pixel of any kernel.
template <class V>
void pixel(const DepthwiseConv2dF32& a, const Window& at) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  const float* weights = a.weights + at.o;
  typename V::Register y = V::load(weights, at.lanes);
  for (size_t tap_row = 0; tap_row < a.kernel_h; ++tap_row) {
    const float* line = line_at(a, at, tap_row);
    for (size_t tap = 0; tap < a.kernel_w; ++tap) {
      const typename V::Register x = input_at<V>(a, at, line, at.left + static_cast<int64_t>(tap * a.dilation_w));
      y = V::fma(x, V::load(weights += outputs, at.lanes), y);
    }
  }
  V::store(at.output + at.o, at.lanes, activated<V>(a.activation, y));
}

using DepthwiseTile = void (*)(const DepthwiseConv2dF32&, const Window&);

// The tiles from one pixel up, and how many there are; none: pixel by pixel.
struct DepthwiseTiles {
  const DepthwiseTile* tiles;
  size_t count;
};

template <class V, int kKernelW, int kStride, int... kPixels>
inline constexpr DepthwiseTile kTiles[] = {tile<V, kPixels, kKernelW, kStride>...};

template <class V>
DepthwiseTiles tiles_of([[maybe_unused]] const DepthwiseConv2dF32& a) noexcept {
  if constexpr (V::kWidth > 1) {
    if (a.multiplier != 1 || a.dilation_w != 1) return {nullptr, 1};
    if (a.kernel_w == 3 && a.stride_w == 1) return {kTiles<V, 3, 1, 1, 2, 3, 4, 5, 6, 7, 8>, 8};
    if (a.kernel_w == 5 && a.stride_w == 1) return {kTiles<V, 5, 1, 1, 2, 3, 4, 5, 6, 7, 8>, 8};
    if (a.kernel_w == 3 && a.stride_w == 2) return {kTiles<V, 3, 2, 1, 2, 3, 4>, 4};
    if (a.kernel_w == 5 && a.stride_w == 2) return {kTiles<V, 5, 2, 1, 2, 3, 4>, 4};
  }
  return {nullptr, 1};
}

template <class V>
void convolve(const DepthwiseConv2dF32& a) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  const DepthwiseTiles tiles = tiles_of<V>(a);
  const size_t count = (a.out_w + tiles.count - 1) / tiles.count;
  const size_t pixels = a.out_w / count;
  const size_t longer = a.out_w % count;
  Window at{};
  for (; at.batch < a.batch; ++at.batch) {
    for (size_t row = 0; row < a.out_h; ++row) {
      float* const line = a.output + (at.batch * a.out_h + row) * a.out_w * outputs;
      at.top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
      for (at.o = 0; at.o < outputs; at.o += V::kWidth) {
        at.lanes = outputs - at.o < V::kWidth ? outputs - at.o : V::kWidth;
        at.left = -static_cast<int64_t>(a.pad_left);
        at.output = line;
        for (size_t i = 0; i < count; ++i) {
          const size_t here = pixels + (i < longer ? 1 : 0);
          if (tiles.tiles == nullptr) {
            pixel<V>(a, at);
          } else {
            tiles.tiles[here - 1](a, at);
          }
          at.left += static_cast<int64_t>(here * a.stride_w);
          at.output += here * outputs;
        }
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
