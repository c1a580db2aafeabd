// output[row][i] = exp(input[row][i] - max(row)) / sum of those, over the last dimension; or the logarithm of it, which is
// (input[row][i] - max(row)) - log(sum), with log_f64 of kernels/math and one rounding of it to float32.
//
// The exponential is a polynomial of our own (below) and the sum is one fixed tree of 16 lanes, which begin anew with each 1,024
// elements and go to the levels of kernels/long_sum.h, so every instruction set gives the same bits.  With `sums`, the exponentials stay undivided and their sums go there; inputs are multiplied by `scale`
// first, which is rounded.  A row with a NaN, with +inf, or of -inf alone gives 0x7FC00000 everywhere, as in torch it gives NaN.
//
// The caller has checked: sizes are at least 1; input and output are the same bytes or don't overlap.  No pointer needs
// more alignment than a float.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct SoftmaxF32 {
  const float* input;  // [rows][count]
  float* output;       // [rows][count]
  size_t rows, count;
  bool is_log = false;
  float scale = 1.0f;
  float* sums = nullptr;  // [rows]; not with is_log
};

// Elements of a row after which the lanes begin anew.
inline constexpr size_t kSoftmaxBlock = 1024;

using SoftmaxF32Kernel = void(const SoftmaxF32&) noexcept;

SoftmaxF32Kernel softmax_f32_reference, softmax_f32_avx2_16, softmax_f32_avx512_16, softmax_f32_neon_16;

// exp(x) for x <= 0: 0 below kExpLowest, NaN for NaN, otherwise
//   t = fma(x, kLog2E, kRoundMagic);  n = t - kRoundMagic             (x / ln 2, rounded to nearest even)
//   r = fma(n, -kLn2Low, fma(n, -kLn2High, x))                        (|r| <= ln 2 / 2)
//   p = c0; p = fma(p, r, c1) ... fma(p, r, c5);  y = fma(p, r * r, r) + 1
//   result = y * 2^n, 2^n made from t's low bits
// Within 2 units in the last place of the exact value.  Coefficients and the split of ln 2 are those of Cephes' expf.
inline constexpr float kExpLowest = -87.0f;
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: its unit in the last place is 1
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440e-4f;
inline constexpr float kExpC0 = 1.9875691500e-4f;
inline constexpr float kExpC1 = 1.3981999507e-3f;
inline constexpr float kExpC2 = 8.3334519073e-3f;
inline constexpr float kExpC3 = 4.1665795894e-2f;
inline constexpr float kExpC4 = 1.6666665459e-1f;
inline constexpr float kExpC5 = 5.0000001201e-1f;

}  // namespace alcove::kernels
