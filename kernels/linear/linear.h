// output[m][n] = bias[n] + sum over k of input[m][k] * weight[n][k], one accumulator per output, k in order, fused
// multiply-add: so every instruction set gives the same bits.  A NaN comes out as 0x7FC00000.
//
// Weights are panels of 16 outputs: [ceil(n/16)][k + 1][16] floats, row 0 the bias, zero beyond n.
// The caller has checked: sizes are at least 1 and the output overlaps no input.  No pointer needs more alignment than a
// float.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct LinearF32 {
  const float* input;   // [m][k]
  const float* panels;  // [ceil(n/16)][k + 1][16]
  float* output;        // [m][n]
  size_t m, n, k;
};

using LinearF32Kernel = void(const LinearF32&) noexcept;

LinearF32Kernel linear_f32_reference, linear_f32_avx2_4x16, linear_f32_avx512_4x32;

}  // namespace alcove::kernels
