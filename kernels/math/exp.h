// Constants of the exponential.
#pragma once

namespace alcove::kernels {

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
