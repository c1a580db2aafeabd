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

inline void layer_norm(const LayerNorm& a) {
  const auto count = static_cast<float>(a.n);
  for (size_t row = 0; row < a.rows; ++row) {
    const float* x = a.input + row * a.n;
    float* y = a.output + row * a.n;
    // Taking +0 off changes no bit of a square, nor of a product with r > 0.
    const float mean = a.is_rms ? 0.0f : fold_row<Sum<float>>(x, a.n, [](float v) { return v; }) / count;
    const float squares = fold_row<Sum<float>>(x, a.n, [mean](float v) { return (v - mean) * (v - mean); });
    const float r = 1.0f / __builtin_sqrtf(squares / count + a.eps);
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
}

}  // namespace

}  // namespace alcove::kernels
