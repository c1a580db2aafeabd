// output[m][n] = bias[n] + sum over k of input[m][k] * weight[n][k], one accumulator per output, k in order, fused
// multiply-add: so every instruction set gives the same bits; then output = output + residual (if there is one), then
// output = low if output < low, high if output > high (a NaN stays one).  A NaN comes out as 0x7FC00000.
//
// Weights are panels of 16 outputs: [ceil(n/16)][k + 1][16] floats, row 0 the bias, zero beyond n.
// The caller has checked: sizes are at least 1, a stride that is given is at least its row, low <= high or they are the
// infinities, and the output overlaps no input.  No pointer needs more alignment than a float.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct LinearF32 {
  const float* input;   // [m][k]
  const float* panels;  // [ceil(n/16)][k + 1][16]
  float* output;        // [m][n]
  size_t m, n, k;
  const float* residual = nullptr;  // [m][n], with the stride of the output
  float low = -__builtin_inff();
  float high = __builtin_inff();
  size_t input_stride = 0;   // floats from row to row; 0: k
  size_t output_stride = 0;  // floats from row to row; 0: n
};

using LinearF32Kernel = void(const LinearF32&) noexcept;

LinearF32Kernel linear_f32_reference, linear_f32_avx2_4x16, linear_f32_avx512_4x32;

// Floats of so many panels of k inputs.  For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size panel_floats(Size panels, Size k) noexcept {
  return panels * (k + 1) * 16;
}

// Makes panels of n outputs and k inputs from weight[n * n_stride + k * k_stride], with a bias of +0.
void pack_panels_f32(const float* weight, size_t n_stride, size_t k_stride, size_t n, size_t k, float* panels) noexcept;

}  // namespace alcove::kernels
