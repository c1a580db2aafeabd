// Each row with its own mean taken off and its own deviation divided out:
//   layer  y = ((x - mean) * r) * weight + bias,  mean = sum(x) / n,  r = 1 / sqrt(sum((x - mean)^2) / n + eps)
//   rms    y = (x * r) * weight + bias,           r = 1 / sqrt(sum(x^2) / n + eps)
// Mean and variance are those of kernels/microkernels/reduce/moments.h, found in one sweep; x - mean is fma(x - k, r, -rest * r), the last
// two steps are one fma where both are there.  A missing weight or bias takes no step.  rms sums as microkernels/reduce does.
// Then y = low if y < low, high if y > high (a NaN stays one).
//
// n is rounded to float32.  The caller has checked: sizes are at least 1; low <= high; input and output are the same bytes
// or don't overlap.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct LayerNorm {
  const float* input;   // [rows][n]
  const float* weight;  // [n] or null
  const float* bias;    // [n] or null
  float* output;        // [rows][n]
  size_t rows, n;
  float eps;
  bool is_rms;
  float low = -__builtin_inff();
  float high = __builtin_inff();
};

using LayerNormKernel = void(const LayerNorm&) noexcept;

LayerNormKernel layer_norm_f32_scalar, layer_norm_f32_avx2, layer_norm_f32_avx512, layer_norm_f32_neon;

}  // namespace alcove::kernels
