// The loops of a narrow convolution, for vectors V of pixels.
#include "kernels/microkernels/conv2d_narrow/conv2d_narrow.h"
#include "kernels/long_sum.h"
#include "kernels/simd/per_isa.h"
#include "kernels/simd/vector.h"

namespace alcove::kernels {

namespace {

// kVectors of neighbours from `pixel` on; the first `count` of them are stored.
template <class V, int kOutputs, int kVectors, bool kIsLong>
void narrow_tile(const Conv2dNarrowRow& a, size_t pixel, size_t count) noexcept {
  typename V::Register y[kOutputs][kVectors];
  for (int o = 0; o < kOutputs; ++o) {
    for (int v = 0; v < kVectors; ++v) y[o][v] = V::fill(a.panel[o]);
  }
  const float* weights = a.panel + 16;
  [[maybe_unused]] size_t left = kSumBlock;  // of the block
  [[maybe_unused]] LongSums<kOutputs * kVectors * V::kWidth> long_sums;
  if constexpr (kIsLong) long_sums.clear();
  [[maybe_unused]] const auto end_block = [&] {
    float sums[kOutputs * kVectors * V::kWidth];
    for (int o = 0; o < kOutputs; ++o) {
      for (int v = 0; v < kVectors; ++v) {
        V::store(sums + static_cast<size_t>(o * kVectors + v) * V::kWidth, V::kWidth, y[o][v]);
        y[o][v] = V::fill(0.0f);
      }
    }
    long_sums.add(sums);
    left = kSumBlock;
  };
  for (size_t row = 0; row < a.kernel_h; ++row) {
    const size_t* planes = a.planes + row * a.in_c;
    for (size_t tap = 0; tap < a.kernel_w; ++tap) {
      for (size_t c = 0; c < a.in_c; ++c, weights += 16) {
        if constexpr (kIsLong) {
          if (left == 0) end_block();
          --left;
        }
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
  if constexpr (kIsLong) {
    end_block();
    const float* total = long_sums.total();
    for (int o = 0; o < kOutputs; ++o) {
      for (int v = 0; v < kVectors; ++v)
        y[o][v] = V::load(total + static_cast<size_t>(o * kVectors + v) * V::kWidth, V::kWidth);
    }
  }
  float lanes[kOutputs][kVectors * V::kWidth];
  for (int o = 0; o < kOutputs; ++o) {
    if (a.residual != nullptr) {
      for (size_t i = 0; i < kVectors * V::kWidth; ++i) {
        lanes[o][i] = i < count ? a.residual[(pixel + i) * kOutputs + static_cast<size_t>(o)] : 0.0f;
      }
      for (int v = 0; v < kVectors; ++v) {
        y[o][v] = V::add(y[o][v], V::load(lanes[o] + static_cast<size_t>(v) * V::kWidth, V::kWidth));
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      V::store(lanes[o] + static_cast<size_t>(v) * V::kWidth, V::kWidth, activate<V>(a.activation, y[o][v]));
    }
  }
  float* output = a.output + pixel * kOutputs;
  for (size_t i = 0; i < count; ++i) {
    for (int o = 0; o < kOutputs; ++o) *output++ = lanes[o][i];
  }
}

template <class V, int kOutputs, bool kIsLong>
void narrow_pixels(const Conv2dNarrowRow& a) noexcept {
  constexpr size_t kTile = 4 * V::kWidth;
  size_t pixel = 0;
  for (; pixel + kTile <= a.pixels; pixel += kTile) narrow_tile<V, kOutputs, 4, kIsLong>(a, pixel, kTile);
  for (; pixel < a.pixels; pixel += V::kWidth) {
    narrow_tile<V, kOutputs, 1, kIsLong>(a, pixel, a.pixels - pixel < V::kWidth ? a.pixels - pixel : V::kWidth);
  }
}

template <class V, int kOutputs>
void narrow_row(const Conv2dNarrowRow& a) noexcept {
  if (a.kernel_h * a.kernel_w * a.in_c > kLongestChain) return narrow_pixels<V, kOutputs, true>(a);
  narrow_pixels<V, kOutputs, false>(a);
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

void ALCOVE_PER_ISA(conv2d_narrow)(const Conv2dNarrowRow& a) noexcept { narrow<Vector>(a); }

}  // namespace alcove::kernels
