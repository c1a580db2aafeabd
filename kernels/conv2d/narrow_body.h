// The loops of a narrow convolution, for vectors V of pixels.  Everything here has internal linkage, so that no copy for a wide
// instruction set is chosen for all.
#pragma once

#include "kernels/conv2d/narrow.h"

namespace alcove::kernels {

namespace {

// kVectors of neighbours from `pixel` on; the first `count` of them are stored.
template <class V, int kOutputs, int kVectors>
void narrow_tile(const Conv2dNarrowRow& a, size_t pixel, size_t count) noexcept {
  typename V::Register y[kOutputs][kVectors];
  for (int o = 0; o < kOutputs; ++o) {
    for (int v = 0; v < kVectors; ++v) y[o][v] = V::fill(a.panel[o]);
  }
  const float* weights = a.panel + 16;
  for (size_t row = 0; row < a.kernel_h; ++row) {
    const size_t* planes = a.planes + row * a.in_c;
    for (size_t tap = 0; tap < a.kernel_w; ++tap) {
      for (size_t c = 0; c < a.in_c; ++c, weights += 16) {
        const float* x = a.base + planes[c] + pixel + tap;
        typename V::Register at[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) at[v] = V::load(x + static_cast<size_t>(v) * V::kWidth, V::kWidth);
#pragma GCC unroll 8
        for (int o = 0; o < kOutputs; ++o) {
          const typename V::Register w = V::fill(weights[o]);
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) y[o][v] = V::fma(at[v], w, y[o][v]);
        }
      }
    }
  }
  float lanes[kOutputs][kVectors * V::kWidth];
  for (int o = 0; o < kOutputs; ++o) {
    if (a.residual != nullptr) {
      for (size_t i = 0; i < kVectors * V::kWidth; ++i) {
        lanes[o][i] = i < count ? a.residual[(pixel + i) * kOutputs + static_cast<size_t>(o)] : 0.0f;
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      float* at = lanes[o] + static_cast<size_t>(v) * V::kWidth;
      const typename V::Register sum = a.residual != nullptr ? V::add(y[o][v], V::load(at, V::kWidth)) : y[o][v];
      V::store(at, V::kWidth, activated<V>(a.activation, sum));
    }
  }
  float* output = a.output + pixel * kOutputs;
  for (size_t i = 0; i < count; ++i) {
    for (int o = 0; o < kOutputs; ++o) *output++ = lanes[o][i];
  }
}

template <class V, int kOutputs>
void narrow_row(const Conv2dNarrowRow& a) noexcept {
  constexpr size_t kTile = 4 * V::kWidth;
  size_t pixel = 0;
  for (; pixel + kTile <= a.pixels; pixel += kTile) narrow_tile<V, kOutputs, 4>(a, pixel, kTile);
  for (; pixel < a.pixels; pixel += V::kWidth) {
    narrow_tile<V, kOutputs, 1>(a, pixel, a.pixels - pixel < V::kWidth ? a.pixels - pixel : V::kWidth);
  }
}

template <class V>
void narrow(const Conv2dNarrowRow& a) noexcept {
  switch (a.out_c) {
    case 1: return narrow_row<V, 1>(a);
    case 2: return narrow_row<V, 2>(a);
    case 3: return narrow_row<V, 3>(a);
    default: return narrow_row<V, 4>(a);
  }
}

}  // namespace

}  // namespace alcove::kernels
