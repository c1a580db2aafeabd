// output[m][n] = bias[n] + sum over k of input[m][k] * weight[n][k], one accumulator per output, from the bias, k in order (above
// 1,024 of them in the blocks of kernels/long_sum.h), fused multiply-add: so every instruction set gives the same bits; then output = output + residual (if there is one), then the
// activation: clamp (output = low if output < low, high if output > high; a NaN stays one), or the formula of the unary
// function of its name (kernels/microkernels/unary).  A NaN comes out as 0x7FC00000.
//
// Weights are panels of 16 outputs: [ceil(n/16)][k + 1][16] floats, row 0 the bias, zero beyond n.  The input of a row may lie
// in `runs` pieces of k / runs floats, in rows of row_runs pieces: run_stride floats from piece to piece of a row, row_stride from
// row to row.  They are the kernel rows of a convolution, or its taps where those do not lie side by side.
// The caller has checked: sizes are at least 1, runs divides k, row_runs divides runs, a stride that is given is at least its row, low <= high or they
// are the infinities, and the output overlaps no input.  No pointer needs more alignment than a float.  Any number of threads.
#pragma once

#include <cstddef>

#include "kernels/activation.h"

namespace alcove::kernels {

struct LinearF32 {
  const float* input;   // [m][k]
  const float* panels;  // [ceil(n/16)][k + 1][16]
  float* output;        // [m][n]
  size_t m, n, k;
  const float* residual = nullptr;  // [m][n], with the stride of the output
  size_t input_stride = 0;          // floats from row to row; 0: k
  size_t output_stride = 0;         // floats from row to row; 0: n
  size_t runs = 1, row_runs = 1;
  size_t run_stride = 0, row_stride = 0;
  Activated activation = {};
};

using LinearF32Kernel = void(const LinearF32&) noexcept;

LinearF32Kernel linear_f32_scalar, linear_f32_avx2_6x16, linear_f32_avx512_8x48, linear_f32_neon_5x16;

// Floats of so many panels of k inputs.  For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size panel_floats(Size panels, Size k) noexcept {
  return panels * (k + 1) * 16;
}

// Makes panels of n outputs and k inputs from weight[n * n_stride + k * k_stride], with a bias of +0.
void pack_panels_f32(const float* weight, size_t n_stride, size_t k_stride, size_t n, size_t k, float* panels) noexcept;

}  // namespace alcove::kernels
