// The functions that models spend their time in, in float32 with fma: exp, log, log1p, tanh, sigmoid, erf.
//
// All are free of branches, so that a loop over them becomes vector code.  Special values are those of IEEE 754's
// recommended functions.  tests/kernels/test_math.py holds each to its bound, in units in the last place (ulp).
#pragma once

#include "kernels/math/bits.h"
#include "kernels/math/exp.h"

namespace alcove::kernels {
namespace {

// exp(x), 2 ulp, over the whole range: +inf above 88.72, subnormal results rounded once, +0 below -103.98.
// The polynomial is that of exp.h; 2^n is applied as two powers of two, so that neither leaves the range.
ALCOVE_INLINE float exp_f32(float x) noexcept {
  x = within(x, -104.0f, 89.0f);
  const float t = fma(x, kLog2E, kRoundMagic);
  const float n = t - kRoundMagic;
  const float r = fma(n, -kLn2Low, fma(n, -kLn2High, x));
  float p = kExpC0;
  p = fma(p, r, kExpC1);
  p = fma(p, r, kExpC2);
  p = fma(p, r, kExpC3);
  p = fma(p, r, kExpC4);
  p = fma(p, r, kExpC5);
  const float y = fma(p, r * r, r) + 1.0f;
  const int32_t exponent = static_cast<int32_t>(bits_of(t) - bits_of(kRoundMagic));
  const int32_t half = exponent >> 1;
  const float first = float_of(static_cast<uint32_t>(half + 127) << 23);
  const float second = float_of(static_cast<uint32_t>(exponent - half + 127) << 23);
  return y * first * second;
}

// exp(-x) for x >= 0, 2 ulp, with one power of two; +0 above 87 and for a NaN.
ALCOVE_INLINE float exp_of_negative(float x) noexcept {
  const float a = x < 87.0f ? x : 87.0f;
  const float t = fma(a, -kLog2E, kRoundMagic);
  const float n = t - kRoundMagic;
  const float r = fma(n, -kLn2Low, fma(n, -kLn2High, -a));
  float p = kExpC0;
  p = fma(p, r, kExpC1);
  p = fma(p, r, kExpC2);
  p = fma(p, r, kExpC3);
  p = fma(p, r, kExpC4);
  p = fma(p, r, kExpC5);
  const float y = fma(p, r * r, r) + 1.0f;
  const float power = float_of(bits_of(y) + (bits_of(t) << 23));
  return x < 87.0f ? power : 0.0f;
}

// erfc(x * sqrt(2)) for x in [0, 4] as 2^q(x), q a minimax fit in the weight of gelu, and 2^r with Cephes' exp2f.
ALCOVE_INLINE float erfc_of_gelu(float x) noexcept {
  float q = 1.8252361042e-04f;
  q = fma(q, x, -1.8480410799e-03f);
  q = fma(q, x, 7.7577922493e-03f);
  q = fma(q, x, -1.5205186792e-02f);
  q = fma(q, x, -2.3149887566e-03f);
  q = fma(q, x, 1.1240764707e-01f);
  q = fma(q, x, -4.1992977262e-01f);
  q = fma(q, x, -1.8368189335e+00f);
  q = fma(q, x, -2.3022122383e+00f);
  q = fma(q, x, 3.6009861759e-08f);
  const float t = q + kRoundMagic;
  const float r = q - (t - kRoundMagic);
  float p = 1.535336188319500e-4f;
  p = fma(p, r, 1.339887440266574e-3f);
  p = fma(p, r, 9.618437357674640e-3f);
  p = fma(p, r, 5.550332471162809e-2f);
  p = fma(p, r, 2.402264791363012e-1f);
  p = fma(p, r, 6.931472028550421e-1f);
  p = fma(p, r, 1.0f);
  return float_of(bits_of(p) + (bits_of(t) << 23));
}

// log(x), 2 ulp; -inf for zeros, NaN below.  x = m * 2^e with m in [sqrt(1/2), sqrt(2)); f = m - 1;
// log = e * ln 2 + f - f^2/2 + f^3 * p(f), the coefficients and the split of ln 2 those of Cephes' logf.
ALCOVE_INLINE float log_f32(float x) noexcept {
  const bool is_subnormal = x < 1.17549435e-38f;
  const uint32_t bits = bits_of(is_subnormal ? x * 8388608.0f : x);
  const int32_t e = static_cast<int32_t>(bits - 0x3F3504F3u) >> 23;
  const float f = float_of(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  const float exponent = static_cast<float>(e) - (is_subnormal ? 23.0f : 0.0f);
  float p = 7.0376836292e-2f;
  p = fma(p, f, -1.1514610310e-1f);
  p = fma(p, f, 1.1676998740e-1f);
  p = fma(p, f, -1.2420140846e-1f);
  p = fma(p, f, 1.4249322787e-1f);
  p = fma(p, f, -1.6668057665e-1f);
  p = fma(p, f, 2.0000714765e-1f);
  p = fma(p, f, -2.4999993993e-1f);
  p = fma(p, f, 3.3333331174e-1f);
  const float square = f * f;
  float y = fma(exponent, kLn2Low, p * f * square);
  y = fma(-0.5f, square, y);
  y = fma(exponent, kLn2High, f + y);
  y = x < kInfinityF ? y : x;
  y = x == 0.0f ? -kInfinityF : y;
  // A NaN made of bits: the compiler would follow a plain one through what comes after, and make branches of it.
  return float_of(bits_of(y) | (x < 0.0f ? 0x7FC00000u : 0u));
}

// log(1 + x), 3 ulp; -0 keeps its sign.  What is lost in u = 1 + x comes back as (x - (u - 1)) / u.
ALCOVE_INLINE float log1p_f32(float x) noexcept {
  const float u = 1.0f + x;
  const float lost = u >= 2.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  const float y = log_f32(u) + lost / u;
  const bool is_plain = u > 0.0f && u < kInfinityF;
  return x == 0.0f ? x : (is_plain ? y : log_f32(u));
}

// tanh(x), 3 ulp.  Below 0.625 an odd polynomial (Cephes' tanhf), above 1 - 2 / (exp(2|x|) + 1).
ALCOVE_INLINE float tanh_f32(float x) noexcept {
  const float a = __builtin_fabsf(x);
  const float s = a * a;
  float p = -5.70498872745e-3f;
  p = fma(p, s, 2.06390887954e-2f);
  p = fma(p, s, -5.37397155531e-2f);
  p = fma(p, s, 1.33314422036e-1f);
  p = fma(p, s, -3.33332819422e-1f);
  const float small = fma(p * s, a, a);
  const float large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}

// 1 / (1 + exp(-x)), 3 ulp where exp(-x) is finite, else +0: as torch computes it.
ALCOVE_INLINE float sigmoid_f32(float x) noexcept { return 1.0f / (1.0f + exp_f32(-x)); }

// erf(x), 2 ulp.  Below 1: x + x * p(x^2); above: 1 - exp(q(|x|)), 1 from 4 on.  Both polynomials are minimax fits to
// the C library's double precision erf and log(erfc).
ALCOVE_INLINE float erf_f32(float x) noexcept {
  const float a = within(__builtin_fabsf(x), 0.0f, 4.0f);
  const float s = a * a;
  float p = 7.8892679419e-05f;
  p = fma(p, s, -8.0208892458e-04f);
  p = fma(p, s, 5.1895412937e-03f);
  p = fma(p, s, -2.6854448133e-02f);
  p = fma(p, s, 1.1283600278e-01f);
  p = fma(p, s, -3.7612627149e-01f);
  p = fma(p, s, 1.2837916592e-01f);
  const float small = fma(p, a, a);
  float q = -2.1686509336e-05f;
  q = fma(q, a, 4.4133238737e-04f);
  q = fma(q, a, -4.2045422360e-03f);
  q = fma(q, a, 2.5208204067e-02f);
  q = fma(q, a, -1.0841849416e-01f);
  q = fma(q, a, -6.3321997045e-01f);
  q = fma(q, a, -1.1295783850e+00f);
  q = fma(q, a, 1.8803183361e-04f);
  const float large = 1.0f - exp_f32(q);
  return __builtin_copysignf(a < 1.0f ? small : large, x);
}

}  // namespace
}  // namespace alcove::kernels
