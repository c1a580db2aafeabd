// The loops of a narrow convolution, for vectors V of pixels.
#include "kernels/microkernels/conv2d_narrow/conv2d_narrow.h"
#include "kernels/long_sum.h"
#include "kernels/simd/per_isa.h"
#include "kernels/simd/vector.h"

namespace alcove::kernels {

namespace {

template <class V>
ALCOVE_ONE_COPY void activate_lanes(const Activated& activation, const float* sums, float* lanes,
                                    size_t count) noexcept {
  if (activation.function <= Activation::clamp) {
    const typename V::Register low = V::fill(activation.low), high = V::fill(activation.high);
    for (size_t i = 0; i < count; i += V::kWidth) {
      V::store(lanes + i, V::kWidth, V::clamp(V::load(sums + i, V::kWidth), low, high));
    }
    return;
  }
  for (size_t i = 0; i < count; i += V::kWidth) {
    V::store(lanes + i, V::kWidth, activate<V>(activation, V::load(sums + i, V::kWidth)));
  }
}

// Stores `count` pixels, whose sums are `width` lanes of an output after those of the one before.
template <class V, int kOutputs>
ALCOVE_ONE_COPY void finish(const Conv2dNarrowRow& a, size_t pixel, size_t count, size_t width,
                            const float* sums) noexcept {
  float lanes[kOutputs * 4 * V::kWidth];
  if (a.residual != nullptr) {
    const float* residual = a.residual + pixel * kOutputs;
    for (size_t o = 0; o < kOutputs; ++o) {
      for (size_t i = 0; i < count; ++i) lanes[o * width + i] = sums[o * width + i] + residual[i * kOutputs + o];
      for (size_t i = count; i < width; ++i) lanes[o * width + i] = 0.0f;
    }
    sums = lanes;
  }
  activate_lanes<V>(a.activation, sums, lanes, kOutputs * width);
  float* output = a.output + pixel * kOutputs;
  for (size_t i = 0; i < count; ++i) {
    for (size_t o = 0; o < kOutputs; ++o) *output++ = lanes[o * width + i];
  }
}

// kVectors of neighbours from `pixel` on; the first `count` of them are stored.
template <class V, int kOutputs, int kVectors, bool kIsLong>
void narrow_tile(const Conv2dNarrowRow& a, size_t pixel, size_t count) noexcept {
  typename V::Register y[kOutputs][kVectors], sums[kOutputs][kVectors];
  for (int o = 0; o < kOutputs; ++o) {
    for (int v = 0; v < kVectors; ++v) y[o][v] = V::fill(a.panel[o]);
  }
  const float* weights = a.panel + 16;
  [[maybe_unused]] size_t left = kSumBlock;  // of the block
  [[maybe_unused]] LongSums<kOutputs * kVectors * V::kWidth> long_sums;
  if constexpr (kIsLong) long_sums.clear();
  const auto end_block = [&] {
    for (int o = 0; o < kOutputs; ++o) {
      for (int v = 0; v < kVectors; ++v) {
        sums[o][v] = y[o][v];
        y[o][v] = V::fill(0.0f);
      }
    }
    if constexpr (kIsLong) long_sums.add(reinterpret_cast<const float*>(sums));
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
  end_block();
  const float* total = reinterpret_cast<const float*>(sums);
  if constexpr (kIsLong) total = long_sums.total();
  finish<V, kOutputs>(a, pixel, count, kVectors * V::kWidth, total);
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
