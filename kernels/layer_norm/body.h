// The loops of layer_norm; compiled once for each instruction set.
#pragma once

#include "kernels/canonical.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/reduce/lanes.h"

namespace alcove::kernels {

namespace {

template <bool kHasWeight, bool kHasBias>
void finish_row(const LayerNorm& a, const float* x, float mean, float r, float* y) {
  const float* weight = a.weight;
  const float* bias = a.bias;
  const float low = a.low, high = a.high;
  for (size_t i = 0; i < a.n; ++i) {
    float value = (x[i] - mean) * r;
    if constexpr (kHasWeight) value = value * weight[i];
    if constexpr (kHasBias) value = value + bias[i];
    y[i] = canonical(clamped(value, low, high));
  }
}

inline void finish_row(const LayerNorm& a, const float* x, float mean, float r, float* y) {
  if (a.weight != nullptr && a.bias != nullptr) {
    finish_row<true, true>(a, x, mean, r, y);
  } else if (a.weight != nullptr) {
    finish_row<true, false>(a, x, mean, r, y);
  } else if (a.bias != nullptr) {
    finish_row<false, true>(a, x, mean, r, y);
  } else {
    finish_row<false, false>(a, x, mean, r, y);
  }
}

// Some rows step by step: each step of a row waits for the one before it, but not for other rows.
constexpr size_t kRowsAtATime = 4;

inline void layer_norm(const LayerNorm& a) {
  const auto count = static_cast<float>(a.n);
  for (size_t first = 0; first < a.rows; first += kRowsAtATime) {
    const size_t rows = a.rows - first < kRowsAtATime ? a.rows - first : kRowsAtATime;
    const float* x = a.input + first * a.n;
    // Taking +0 off changes no bit of a square, nor of a product with r > 0.
    float means[kRowsAtATime] = {}, squares[kRowsAtATime];
    if (!a.is_rms) {
      for (size_t i = 0; i < rows; ++i) means[i] = fold_row<Sum<float>>(x + i * a.n, a.n, [](float v) { return v; }) / count;
    }
    for (size_t i = 0; i < rows; ++i) {
      squares[i] = fold_row<Sum<float>>(x + i * a.n, a.n, [mean = means[i]](float v) { return (v - mean) * (v - mean); });
    }
    for (size_t i = 0; i < rows; ++i) {
      const float r = 1.0f / __builtin_sqrtf(squares[i] / count + a.eps);
      finish_row(a, x + i * a.n, means[i], r, a.output + (first + i) * a.n);
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
