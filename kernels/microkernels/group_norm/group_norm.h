// Each group of channels of each sample with its own mean taken off and its own deviation divided out, channels last:
//   y = (x - mean) * (r * weight) + bias,  mean = sum(x) / n,  r = 1 / sqrt(sum((x - mean)^2) / n + eps)
// with n = positions * channels / groups elements: y = fma(x - k, scale, fma(-rest, scale, bias)), scale = r * weight.
// Mean and variance are those of kernels/microkernels/reduce/moments.h, found in one sweep: of each channel over the positions, then of
// these as one.  n is rounded to float32; a missing weight is 1, a missing bias -0.
// Then y = low if y < low, high if y > high (a NaN stays one).  With groups == channels this is instance norm.
//
// The caller has checked: sizes are at least 1, groups divides channels, low <= high; input and output are the same bytes
// or don't overlap.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct GroupNorm {
  const float* input;   // [samples][positions][channels]
  const float* weight;  // [channels] or null
  const float* bias;    // [channels] or null
  float* output;        // as the input
  size_t samples, positions, channels, groups;
  float eps;
  float low = -__builtin_inff();
  float high = __builtin_inff();
};

using GroupNormKernel = void(const GroupNorm&) noexcept;

GroupNormKernel group_norm_f32_scalar, group_norm_f32_avx2, group_norm_f32_avx512, group_norm_f32_neon;

}  // namespace alcove::kernels
