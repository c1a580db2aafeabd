// Matrix product of float32 rows with int8 weights; each row is quantized by its own range as it comes.
//   low = min(0, x...), high = max(0, x...), scale = high / 255 - low / 255 (1 if that is below 2^-100), inverse = 1 / scale
//   zero = requantize(-128 - low * inverse) over [-128, 127], q[k] = requantize(x[k] * inverse) over [-128, 127] with zero
//   acc[n] = sum over k of q[k] * weight[n][k] - zero * sum of weights[n], in int32
//   y[n] = float(acc[n]) * (scale * weight_scale[n]), then + bias[n] if there is one
// every step rounded to float32; a row with an infinity or a NaN becomes all NaN (0x7FC00000).
// (kernels/requantize.h has the rule and the panels; the panels' int32 is the sum of weights.)
//
// The caller has checked: sizes are at least 1, k <= 65,536; the output overlaps no input; scratch is aligned to an int32 and
// has linear_qd8_qc8w_scratch_bytes or more.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear_i8/linear_i8.h"

namespace alcove::kernels {

struct LinearQd8Qc8w {
  const float* input;  // [m][k]
  const int8_t* panels;
  const float* bias;  // [n], or null
  float* output;      // [m][n]
  void* scratch;
  size_t scratch_bytes;
  LinearI8Kernel* linear;
  size_t m, n, k;
  bool is_cold = false;  // as of LinearI8
};

using LinearQd8Qc8wKernel = void(const LinearQd8Qc8w&) noexcept;

LinearQd8Qc8wKernel linear_qd8_qc8w_scalar, linear_qd8_qc8w_avx2, linear_qd8_qc8w_avx512, linear_qd8_qc8w_neon;

// Rows and outputs that are multiplied at a time: many of one where the others are few.
inline constexpr size_t kDynamicRows = 8, kMostDynamicRows = 64;
inline constexpr size_t kDynamicOutputs = 256, kFewDynamicOutputs = 64;

// What one of many rows takes.
constexpr size_t dynamic_row_bytes(size_t k) noexcept { return kFewDynamicOutputs * sizeof(int32_t) + k; }

// Sums of a block, then its quantized rows: what is needed at least.
constexpr size_t linear_qd8_qc8w_scratch_bytes(size_t k) noexcept {
  return kDynamicRows * (kDynamicOutputs * sizeof(int32_t) + k);
}

// With which `rows` rows are multiplied fastest.
constexpr size_t linear_qd8_qc8w_scratch_bytes(size_t k, size_t rows) noexcept {
  const size_t least = linear_qd8_qc8w_scratch_bytes(k);
  const size_t many = (rows < kMostDynamicRows ? rows : kMostDynamicRows) * dynamic_row_bytes(k);
  return many < least ? least : many;
}

}  // namespace alcove::kernels
