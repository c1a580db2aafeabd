// Matrix product of float32 rows with weights of 4 bits, in groups along k with a scale each.
//   y = bias[n] (+0 if there is none); for each group in order: part = +0, then part = fma(x[k], float(q[n][k]), part) for k of
//   the group in order, then y = fma(part, scale[n][group], y), above 1,024 groups in the blocks of kernels/long_sum.h
// A NaN comes out as 0x7FC00000.
//
// Weights are ceil(n/16) panels, each ceil(k/group) blocks of
//   float32[16]                scale of each output
//   uint32[group / 8][16]      weight of output c for input 8 * i + j of the group: q = bits 4j .. 4j + 3 of [i][c], less 8
// little-endian; outputs beyond n and inputs beyond k are 0 (stored as 8).
// The caller has checked: sizes are at least 1, group is 32 or 64; the output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct LinearF32Qb4w {
  const float* input;  // [m][k]
  const int8_t* panels;
  const float* bias;  // [n], or null
  float* output;      // [m][n]
  size_t m, n, k, group;
};

using LinearF32Qb4wKernel = void(const LinearF32Qb4w&) noexcept;

LinearF32Qb4wKernel linear_f32_qb4w_scalar, linear_f32_qb4w_avx2, linear_f32_qb4w_avx512, linear_f32_qb4w_neon;

[[nodiscard]] constexpr size_t panel_bytes_i4(size_t k, size_t group) noexcept {
  return (k + group - 1) / group * (64 + 8 * group);
}

}  // namespace alcove::kernels
