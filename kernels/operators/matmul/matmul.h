// output[b][m][n] = sum over k of left[b][m][k] * right[b][k][n], for each index b of the batch dimensions: one accumulator
// per output, from +0, k in order, fused multiply-add.  A NaN comes out as 0x7FC00000.
//
// The right operand is packed into panels, a block of 16 panels at a time, and `linear` multiplies them; a block that
// several batches share is packed once for each run of equal ones.
//
// The caller has checked: sizes are at least 1; every index of the batch, times its strides, stays within the operand;
// scratch has matmul_scratch_floats; the output overlaps no input.  No pointer needs more alignment than a float.  Any
// number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

inline constexpr size_t kMaxBatchRank = 6;

struct MatmulF32 {
  LinearF32Kernel* linear;
  const float* left;   // [m][k] at left + index . left_strides
  const float* right;  // [k][n], or [n][k] if transposed, at right + index . right_strides
  float* output;       // dense: [batch...][m][n]
  float* scratch;
  size_t batch_rank;  // 0 to kMaxBatchRank
  size_t batch[kMaxBatchRank];
  size_t left_strides[kMaxBatchRank];  // in floats, 0 where the operand is repeated
  size_t right_strides[kMaxBatchRank];
  size_t m, n, k;
  bool is_transposed;
};

using MatmulF32Kernel = void(const MatmulF32&) noexcept;

MatmulF32Kernel matmul_f32_scalar;

inline constexpr size_t kMatmulPanels = 16;

// For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size matmul_scratch_floats(size_t n, Size k) noexcept {
  const size_t panels = (n + 15) / 16;
  return panel_floats<Size>(panels < kMatmulPanels ? panels : kMatmulPanels, k);
}

}  // namespace alcove::kernels
