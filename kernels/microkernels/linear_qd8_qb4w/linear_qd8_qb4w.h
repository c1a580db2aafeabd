// Matrix product of float32 rows with weights of 4 bits in groups along k; each group of a row is quantized by its own range as
// it comes.  For a group of inputs x of a row:
//   greatest = max |x|, scale = greatest / 127 (1 if that is below 2^-100), inverse = 1 / scale
//   q[k] = requantize(x[k] * inverse) over [-127, 127] (kernels/requantize.h)
//   acc[n] = sum over the group of q[k] * weight[n][k], in int32, exact
//   y[n] = fma(float(acc[n]), weight_scale[n][group] * scale, y[n])
// for the groups in order, y from bias[n] (+0 if there is none), every step rounded to float32.  A group with an infinity or a
// NaN has the scale NaN and the numbers 0.  A NaN comes out as 0x7FC00000.
//
// Weights are ceil(n/16) panels, each
//   uint16[groups, made even][16]      scale of each output for each group: the upper half of a float32
//   uint32[groups][group / 8][16]      weight of output c for input 8 * i + j of the group: q = bits of [i][c] from
//                                      8 * (j % 4) + 4 * (j / 4) on, four of them, less 8
// little-endian; outputs beyond n and inputs beyond k are 0 (stored as 8).
// The caller has checked: sizes are at least 1, group is 32 or 64, k <= 1,024 * group; the output overlaps no input; scratch is
// aligned to 64 and has linear_qd8_qb4w_scratch_bytes.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct LinearQd8Qb4w {
  const float* input;  // [m][k]
  const int8_t* panels;
  const float* bias;  // [n], or null
  float* output;      // m rows of n, output_stride apart
  void* scratch;
  size_t m, n, k, group;
  size_t output_stride;
};

using LinearQd8Qb4wKernel = void(const LinearQd8Qb4w&) noexcept;

LinearQd8Qb4wKernel linear_qd8_qb4w_scalar, linear_qd8_qb4w_avx2_2x16, linear_qd8_qb4w_avx512_8x16,
    linear_qd8_qb4w_avx512_vnni_8x16, linear_qd8_qb4w_neon_2x16, linear_qd8_qb4w_neon_dotprod_4x16;

inline constexpr size_t kMostGroupsQb4 = 1024;
// Rows that are quantized at a time.
inline constexpr size_t kGroupedRows = 64;

// Bytes of the scales in front of a panel's weights.
[[nodiscard]] constexpr size_t panel_head_bytes_qb4(size_t k, size_t group) noexcept {
  return ((k + group - 1) / group + 1) / 2 * 64;
}
[[nodiscard]] constexpr size_t panel_bytes_qb4(size_t k, size_t group) noexcept {
  return panel_head_bytes_qb4(k, group) + (k + group - 1) / group * 8 * group;
}

// For each row its numbers, and for each of its groups a scale and a sum of numbers.
[[nodiscard]] constexpr size_t linear_qd8_qb4w_scratch_bytes(size_t k, size_t group) noexcept {
  const size_t groups = (k + group - 1) / group;
  return kGroupedRows * groups * (group + 8);
}

}  // namespace alcove::kernels
