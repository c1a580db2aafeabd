// Matrix product in int8.  For row m and output n:
//   acc = bias[n] + sum over k of input[m][k] * weight[n][k], in int32
//   output[m][n] = requantize(float(acc) * scale[n])          (kernels/requantize.h has the rule and the panels)
// The panels' int32 is the bias in units of input scale * weight scale, less input zero point * sum of weights; their
// scale is input scale * weight scale / output scale.  [low, high] is the fused activation.
//
// If `sums` is given, the exact sums of products (without the panels' int32) go there and nothing else is written.
// The caller has checked: sizes are at least 1, k <= 65,536, -128 <= low <= high <= 127, zero_point in the same range; the
// output overlaps no input.  No pointer needs more alignment than its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct LinearI8 {
  const int8_t* input;  // m rows of k, input_stride apart
  size_t input_stride;
  const int8_t* panels;
  int8_t* output;  // m rows of n, output_stride apart
  size_t output_stride;
  int32_t* sums;  // [m][16 * ceil(n/16)], or null
  size_t m, n, k;
  int32_t zero_point, low, high;  // of the output
  bool is_cold = false;           // weights come from memory: those of a single row are fetched early
};

using LinearI8Kernel = void(const LinearI8&) noexcept;

LinearI8Kernel linear_i8_scalar, linear_i8_avx2_2x16, linear_i8_avx512_4x32, linear_i8_avx512_vnni_6x64,
    linear_i8_neon_2x16, linear_i8_neon_dotprod_5x16, linear_i8_neon_i8mm_6x16;

}  // namespace alcove::kernels
