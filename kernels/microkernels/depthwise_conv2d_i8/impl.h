// The loops of depthwise_conv2d_i8, compiled once for each instruction set.
#pragma once

#include <cstring>

#include "kernels/microkernels/depthwise_conv2d_i8/depthwise_conv2d_i8.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

// Where some neighbours in a row of the output look: the input's row and column of their first tap; 16 channels of a panel.
struct Window {
  size_t batch;
  int64_t top, left;
  size_t panel;
  int8_t* output;  // of the first, channel 0
  Int8Range range;
};

inline const int8_t* line_at(const DepthwiseConv2dI8& a, const Window& at, size_t tap_row) noexcept {
  const int64_t row = at.top + static_cast<int64_t>(tap_row * a.dilation_h);
  if (row < 0 || row >= static_cast<int64_t>(a.in_h)) return nullptr;
  return a.input + (at.batch * a.in_h + static_cast<size_t>(row)) * a.in_w * a.channels + at.panel * 16;
}

inline Lanes16::Words input_at(const DepthwiseConv2dI8& a, const int8_t* line, int64_t column, size_t lanes) noexcept {
  if (line == nullptr || column < 0 || column >= static_cast<int64_t>(a.in_w))
    return Lanes16::fill_words(a.input_zero_point);
  return Lanes16::widen_some(line + static_cast<size_t>(column) * a.channels, lanes);
}

inline void finish(const DepthwiseConv2dI8& a, const Window& at, const int8_t* head, size_t pixel, size_t lanes,
                   const Lanes16::Words& acc) noexcept {
  const Lanes16::Words sum = Lanes16::add(acc, Lanes16::load_words(head));
  const Lanes16::Floats v = Lanes16::multiply(Lanes16::to_floats(sum), Lanes16::load(head + 64));
  Lanes16::requantize_store(at.output + pixel * a.channels + at.panel * 16, lanes, v, at.range);
}

// Kernels of kKernelW columns side by side: each column of the input is loaded once for all pixels that it takes part in, and
// two neighbouring taps are one product.
template <int kPixels, int kKernelW, int kStride>
void tile(const DepthwiseConv2dI8& a, const Window& at) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernelW;
  constexpr int kPairs = (kKernelW + 1) / 2;
  const int8_t* head = a.panels + at.panel * depthwise_panel_bytes_i8(a.kernel_h * a.kernel_w);
  const int8_t* weights = head + 128;
  const size_t lanes = a.channels - at.panel * 16;
  int8_t outside[16];
  std::memset(outside, a.input_zero_point, sizeof(outside));
  // Columns [begin, begin + inside) of the tile are columns of the input.
  const int64_t begin = at.left < 0 ? -at.left : 0;
  const int64_t reach = static_cast<int64_t>(a.in_w) - at.left;
  const int64_t inside = (reach < kColumns ? reach : kColumns) - begin;
  Lanes16::Words acc[kPixels];
  for (int p = 0; p < kPixels; ++p) acc[p] = Lanes16::zero();
  for (size_t i = 0; i < a.kernel_h; ++i, weights += kKernelW * 16) {
    const int8_t* line = line_at(a, at, i);
    const uint64_t count = line != nullptr && inside > 0 ? static_cast<uint64_t>(inside) : 0;
    Lanes16::Words x[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const bool is_inside = static_cast<uint64_t>(c - begin) < count;
      x[c] = Lanes16::widen_some(is_inside ? line + static_cast<size_t>(at.left + c) * a.channels : outside, lanes);
    }
    // Tap t beside tap t + 1; the last of an odd number beside a weight of 0.
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) x[c] = Lanes16::pair(x[c], x[c + 1 < kColumns ? c + 1 : c]);
#pragma GCC unroll 4
    for (int t = 0; t < kPairs; ++t) {
      const Lanes16::Words next = 2 * t + 1 < kKernelW ? Lanes16::widen(weights + (2 * t + 1) * 16) : Lanes16::zero();
      const Lanes16::Words w = Lanes16::pair(Lanes16::widen(weights + 2 * t * 16), next);
#pragma GCC unroll 16
      for (int p = 0; p < kPixels; ++p) acc[p] = Lanes16::multiply_add_pairs(x[p * kStride + 2 * t], w, acc[p]);
    }
  }
  for (int p = 0; p < kPixels; ++p) finish(a, at, head, static_cast<size_t>(p), lanes, acc[p]);
}

// One pixel of any kernel.
inline void pixel(const DepthwiseConv2dI8& a, const Window& at) noexcept {
  const int8_t* head = a.panels + at.panel * depthwise_panel_bytes_i8(a.kernel_h * a.kernel_w);
  const int8_t* weights = head + 128;
  const size_t lanes = a.channels - at.panel * 16;
  Lanes16::Words acc = Lanes16::zero();
  for (size_t i = 0; i < a.kernel_h; ++i) {
    const int8_t* line = line_at(a, at, i);
    for (size_t j = 0; j < a.kernel_w; ++j, weights += 16) {
      const Lanes16::Words x = input_at(a, line, at.left + static_cast<int64_t>(j * a.dilation_w), lanes);
      acc = Lanes16::multiply_add_pairs(Lanes16::pair(x, Lanes16::zero()), Lanes16::widen(weights), acc);
    }
  }
  finish(a, at, head, 0, lanes, acc);
}

using DepthwiseTile = void (*)(const DepthwiseConv2dI8&, const Window&);

// The tiles from one pixel up, and how many there are.
struct DepthwiseTiles {
  const DepthwiseTile* tiles;
  size_t count;
};

template <int kKernelW, int kStride, int... kPixels>
inline constexpr DepthwiseTile kTiles[] = {tile<kPixels, kKernelW, kStride>...};

inline constexpr DepthwiseTile kPixel[] = {pixel};

inline constexpr DepthwiseTiles kPixelByPixel = {kPixel, 1};

inline DepthwiseTiles make_tiles(const DepthwiseConv2dI8& a) noexcept {
  if (a.dilation_w == 1) {
    if (a.kernel_w == 3 && a.stride_w == 1) return {kTiles<3, 1, 1, 2, 3, 4>, 4};
    if (a.kernel_w == 5 && a.stride_w == 1) return {kTiles<5, 1, 1, 2, 3, 4>, 4};
    if (a.kernel_w == 3 && a.stride_w == 2) return {kTiles<3, 2, 1, 2, 3, 4>, 4};
    if (a.kernel_w == 5 && a.stride_w == 2) return {kTiles<5, 2, 1, 2, 3, 4>, 4};
  }
  return kPixelByPixel;
}

// `tiles`: those of the kernel, or pixel by pixel.
inline void convolve(const DepthwiseConv2dI8& a, const DepthwiseTiles& tiles) noexcept {
  const size_t count = (a.out_w + tiles.count - 1) / tiles.count;
  const size_t pixels = a.out_w / count;
  const size_t longer = a.out_w % count;
  Window at{};
  at.range = int8_range(a.low, a.high, a.zero_point);
  for (; at.batch < a.batch; ++at.batch) {
    for (size_t row = 0; row < a.out_h; ++row) {
      int8_t* const line = a.output + (at.batch * a.out_h + row) * a.out_w * a.channels;
      at.top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
      for (at.panel = 0; at.panel * 16 < a.channels; ++at.panel) {
        at.left = -static_cast<int64_t>(a.pad_left);
        at.output = line;
        for (size_t i = 0; i < count; ++i) {
          const size_t here = pixels + (i < longer ? 1 : 0);
          tiles.tiles[here - 1](a, at);
          at.left += static_cast<int64_t>(here * a.stride_w);
          at.output += here * a.channels;
        }
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
