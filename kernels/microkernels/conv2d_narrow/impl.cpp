// The loops of a narrow convolution, for vectors V of pixels.
#include "kernels/microkernels/conv2d_narrow/conv2d_narrow.h"
#include "kernels/long_sum.h"
#include "kernels/simd/per_isa.h"
#include "kernels/simd/vector.h"

namespace alcove::kernels {

namespace {

// Adds the residual, if there is one, to `count` sums, activates and stores them.  `sums` has whole vectors.
template <class V>
ALCOVE_ONE_COPY void store_activated(const Activated& activation, const float* sums, const float* residual,
                                     float* output, size_t count) noexcept {
  const typename V::Register low = V::fill(activation.low), high = V::fill(activation.high);
  const bool is_clamp = activation.function <= Activation::clamp;
  const auto store = [&](size_t i, size_t lanes) {
    typename V::Register y = V::load(sums + i, V::kWidth);
    if (residual != nullptr) y = V::add(y, V::load(residual + i, lanes));
    V::store(output + i, lanes, is_clamp ? V::clamp(y, low, high) : activate<V>(activation, y));
  };
  size_t i = 0;
  for (; i + V::kWidth <= count; i += V::kWidth) store(i, V::kWidth);
  if (i < count) store(i, count - i);
}

// Stores `count` pixels, whose sums are `width` lanes of an output after those of the one before.
template <class V, int kOutputs>
ALCOVE_ONE_COPY void finish(const Conv2dNarrowRow& a, size_t pixel, size_t count, size_t width,
                            const float* sums) noexcept {
  float pixels[4 * V::kWidth][kOutputs];
  if constexpr (kOutputs > 1) {
#pragma GCC unroll 4
    for (size_t i = 0; i < width; ++i) {
#pragma GCC unroll 4
      for (size_t o = 0; o < kOutputs; ++o) pixels[i][o] = sums[o * width + i];
    }
    sums = pixels[0];
  }
  const size_t first = pixel * kOutputs;
  const float* residual = a.residual != nullptr ? a.residual + first : nullptr;
  store_activated<V>(a.activation, sums, residual, a.output + first, count * kOutputs);
}

// kVectors of neighbours from `pixel` on; the first `count` of them are stored.
template <class V, int kOutputs, int kVectors, bool kIsLong>
void narrow_tile(const Conv2dNarrowRow& a, size_t pixel, size_t count) noexcept {
  constexpr size_t kLanes = kVectors * V::kWidth;
  typename V::Register y[kOutputs][kVectors];
  for (int o = 0; o < kOutputs; ++o) {
    for (int v = 0; v < kVectors; ++v) y[o][v] = V::fill(a.panel[o]);
  }
  const float* weights = a.panel + 16;
  [[maybe_unused]] size_t left = kSumBlock;  // of the block
  [[maybe_unused]] LongSums<kOutputs * kLanes> long_sums;
  if constexpr (kIsLong) long_sums.clear();
  [[maybe_unused]] const auto end_block = [&] {
    typename V::Register sums[kOutputs][kVectors];
    for (int o = 0; o < kOutputs; ++o) {
      for (int v = 0; v < kVectors; ++v) {
        sums[o][v] = y[o][v];
        y[o][v] = V::fill(0.0f);
      }
    }
    long_sums.add(reinterpret_cast<const float*>(sums));
    left = kSumBlock;
  };
  const size_t kernel_h = a.kernel_h, kernel_w = a.kernel_w, in_c = a.in_c;
  if (kernel_h == 0 || kernel_w == 0 || in_c == 0) __builtin_unreachable();
  for (size_t row = 0; row < kernel_h; ++row) {
    const size_t* planes = a.planes + row * in_c;
    for (size_t tap = 0; tap < kernel_w; ++tap) {
      for (size_t c = 0; c < in_c; ++c, weights += 16) {
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
    finish<V, kOutputs>(a, pixel, count, kLanes, long_sums.total());
  } else {
    finish<V, kOutputs>(a, pixel, count, kLanes, reinterpret_cast<const float*>(y));
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
