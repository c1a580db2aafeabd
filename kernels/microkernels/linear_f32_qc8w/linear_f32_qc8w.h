// Matrix product of float32 rows with int8 weights that are widened as they are used.
//   acc = +0, then acc = fma(x[k], float(weight[n][k]), acc) for k in order; y[n] = fma(acc, scale[n], bias[n])
// with a bias of +0 if there is none; a NaN comes out as 0x7FC00000.
// (kernels/requantize.h has the panels; those of linear_qd8_qc8w serve, their int32s are not read.)
//
// The `panels` variants stand in for `linear` in kernels that ride on it: they take its arguments without residual, bounds
// and strides; its panels are then those of int8, with the bits of the float32 biases in place of the int32s.
// The caller has checked: sizes are at least 1; the output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

struct LinearF32Qc8w {
  const float* input;  // [m][k]
  const int8_t* panels;
  const float* bias;  // [n], or null
  float* output;      // [m][n]
  size_t m, n, k;
  bool has_head_bias;  // the biases are in the panels
};

using LinearF32Qc8wKernel = void(const LinearF32Qc8w&) noexcept;

LinearF32Qc8wKernel linear_f32_qc8w_scalar, linear_f32_qc8w_avx2, linear_f32_qc8w_avx512, linear_f32_qc8w_neon;
LinearF32Kernel linear_f32_qc8w_panels_scalar, linear_f32_qc8w_panels_avx2, linear_f32_qc8w_panels_avx512,
    linear_f32_qc8w_panels_neon;

}  // namespace alcove::kernels
