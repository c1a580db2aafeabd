// output[row][i] = exp(input[row][i] - max(row)) / sum of those, over the last dimension; or the logarithm of it, which is
// (input[row][i] - max(row)) - log(sum).
//
// The exponential is a polynomial of our own (below) and the sum is one fixed tree of 16 lanes, so every instruction set
// gives the same bits.  A row with a NaN, with +inf, or of -inf alone gives 0x7FC00000 everywhere, as in torch it gives NaN.
//
// The caller has checked: sizes are at least 1; input and output are the same bytes or don't overlap.  No pointer needs
// more alignment than a float.  Any number of threads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct SoftmaxF32 {
  const float* input;  // [rows][count]
  float* output;       // [rows][count]
  size_t rows, count;
  bool is_log = false;
};

using SoftmaxF32Kernel = void(const SoftmaxF32&) noexcept;

SoftmaxF32Kernel softmax_f32_reference, softmax_f32_avx2_16, softmax_f32_avx512_16;

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

// log(sum) for a sum of exponentials, 1 <= sum < 2^64, or NaN for NaN.  In float64, one rounding to float32 at the end:
//   sum = m * 2^e, sqrt(1/2) <= m < sqrt(2);  s = (m - 1) / (m + 1)
//   log(sum) = e * ln 2 + 2 * (s + s^3 / 3 + s^5 / 5 + ... + s^19 / 19), terms from the last, s^2 one product
// Internal linkage, so that a copy compiled for a wide instruction set can never be chosen by the linker for all.
[[maybe_unused]] static inline float log_of_sum(float sum) noexcept {
  if (sum != sum) return sum;
  const auto bits = std::bit_cast<uint32_t>(sum);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  double m = static_cast<double>(std::bit_cast<float>((bits & 0x007FFFFFu) | 0x3F800000u));
  if (m > 1.41421356237309505) {
    m *= 0.5;
    exponent += 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double series = 0.0;
  for (int term = 19; term >= 1; term -= 2) series = series * square + 1.0 / term;
  return static_cast<float>(exponent * 0.693147180559945309417 + 2.0 * s * series);
}

}  // namespace alcove::kernels
