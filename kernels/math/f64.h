// Functions that models call less often: float32 in, float32 out, doubles in between, so that the one rounding at the end
// decides and every result is within 1 ulp.
//
// The double functions below are not for general use: they know that what comes in was made from float32 and that 11
// digits are enough.  Their series are Taylor's, with the coefficients written as fractions; no fma, so that processors
// without one are not slow.
#pragma once

#include "kernels/math/bits.h"

namespace alcove::kernels {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr double kRoundMagicD = 6755399441055744.0;  // 1.5 * 2^52: its unit in the last place is 1

// 2^t for |t| up to 1000, beyond it as at 1000; relative error below 1e-11.
ALCOVE_INLINE double exp2_f64(double t) noexcept {
  t = within(t, -1000.0, 1000.0);
  const double magic = t + kRoundMagicD;
  const double r = (t - (magic - kRoundMagicD)) * kLn2;
  double p = 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * double_of((bits_of(magic) - bits_of(kRoundMagicD) + 1023) << 52);
}

ALCOVE_INLINE double exp_f64(double x) noexcept { return exp2_f64(x * (1.0 / kLn2)); }

// log(x) for x that are normal; special values as IEEE 754 has them.  x = m * 2^e, m in [sqrt(1/2), sqrt(2)),
// log(m) = 2 atanh((m - 1) / (m + 1)).
ALCOVE_INLINE double log_f64(double x) noexcept {
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCDu;
  constexpr uint64_t kBias = 1024;                  // keeps the shifted difference positive
  constexpr uint64_t kMagic = 0x4330000000000000u;  // 2^52: small integers in its low bits
  const uint64_t bits = bits_of(x);
  const uint64_t biased = (bits - kRootHalf + (kBias << 52)) >> 52;
  const double exponent = double_of(biased | kMagic) - double_of(kMagic | kBias);
  const double m = double_of(bits - ((biased - kBias) << 52));
  const double f = (m - 1.0) / (m + 1.0);
  const double s = f * f;
  double p = 1.0 / 17;
  p = p * s + 1.0 / 15;
  p = p * s + 1.0 / 13;
  p = p * s + 1.0 / 11;
  p = p * s + 1.0 / 9;
  p = p * s + 1.0 / 7;
  p = p * s + 1.0 / 5;
  p = p * s + 1.0 / 3;
  double y = exponent * kLn2 + 2.0 * (f + f * s * p);
  y = x < kInfinityD ? y : x;
  y = x == 0.0 ? -kInfinityD : y;
  return double_of(bits_of(y) | (x < 0.0 ? 0x7FF8000000000000u : 0u));  // as in f32.h
}

// atan(y / x) for y, x >= 0 not both NaN, in [0, pi/2]; 0 for (0, 0), pi/4 for (inf, inf).
ALCOVE_INLINE double atan_quotient(double y, double x) noexcept {
  const bool is_steep = y > x;
  const double less = is_steep ? x : y;
  const double more = is_steep ? y : x;
  double t = more == 0.0 ? 0.0 : less / more;
  t = less == kInfinityD ? 1.0 : t;
  const bool is_upper = t > 0.41421356237309503;  // tan(pi / 8)
  const double u = is_upper ? (t - 1.0) / (t + 1.0) : t;
  const double s = u * u;
  double p = 1.0 / 29;
  p = -p * s + 1.0 / 27;
  p = -p * s + 1.0 / 25;
  p = -p * s + 1.0 / 23;
  p = -p * s + 1.0 / 21;
  p = -p * s + 1.0 / 19;
  p = -p * s + 1.0 / 17;
  p = -p * s + 1.0 / 15;
  p = -p * s + 1.0 / 13;
  p = -p * s + 1.0 / 11;
  p = -p * s + 1.0 / 9;
  p = -p * s + 1.0 / 7;
  p = -p * s + 1.0 / 5;
  p = -p * s + 1.0 / 3;
  double angle = u - u * s * p;
  angle = is_upper ? angle + 0.78539816339744831 : angle;
  return is_steep ? 1.5707963267948966 - angle : angle;
}

ALCOVE_INLINE double atan2_f64(double y, double x) noexcept {
  const double angle = atan_quotient(__builtin_fabs(y), __builtin_fabs(x));
  const double turned = __builtin_copysign(1.0, x) < 0.0 ? 3.1415926535897932 - angle : angle;
  return x == x && y == y ? __builtin_copysign(turned, y) : x + y;
}

ALCOVE_INLINE float round_f64(double x) noexcept { return static_cast<float>(x); }

ALCOVE_INLINE float exp2_f32(float x) noexcept { return round_f64(exp2_f64(x)); }

ALCOVE_INLINE float expm1_f32(float x) noexcept {
  const double d = x;
  const double near = d * (1.0 + d * (0.5 + d * (1.0 / 6)));
  return round_f64(__builtin_fabs(d) < 0x1p-10 ? near : exp_f64(d) - 1.0);
}

ALCOVE_INLINE float log2_f32(float x) noexcept { return round_f64(log_f64(x) * (1.0 / kLn2)); }
ALCOVE_INLINE float log10_f32(float x) noexcept { return round_f64(log_f64(x) * 0.43429448190325183); }

ALCOVE_INLINE float asin_f32(float x) noexcept {
  const double d = x;
  return round_f64(atan2_f64(d, __builtin_sqrt((1.0 - d) * (1.0 + d))));
}
ALCOVE_INLINE float acos_f32(float x) noexcept {
  const double d = x;
  return round_f64(atan2_f64(__builtin_sqrt((1.0 - d) * (1.0 + d)), d));
}
ALCOVE_INLINE float atan_f32(float x) noexcept { return round_f64(atan2_f64(x, 1.0)); }
ALCOVE_INLINE float atan2_f32(float y, float x) noexcept { return round_f64(atan2_f64(y, x)); }

ALCOVE_INLINE float sinh_f32(float x) noexcept {
  const double d = x;
  const double near = d * (1.0 + d * d * (1.0 / 6));
  return round_f64(__builtin_fabs(d) < 0x1p-8 ? near : 0.5 * (exp_f64(d) - exp_f64(-d)));
}
ALCOVE_INLINE float cosh_f32(float x) noexcept {
  const double d = x;
  return round_f64(0.5 * (exp_f64(d) + exp_f64(-d)));
}
ALCOVE_INLINE float asinh_f32(float x) noexcept {
  const double a = __builtin_fabs(static_cast<double>(x));
  const double near = a * (1.0 - a * a * (1.0 / 6));
  const double y = a < 0x1p-8 ? near : log_f64(a + __builtin_sqrt(a * a + 1.0));
  return round_f64(__builtin_copysign(y, static_cast<double>(x)));
}
ALCOVE_INLINE float acosh_f32(float x) noexcept {
  const double d = x;
  const double y = log_f64(d + __builtin_sqrt(d * d - 1.0));
  return round_f64(d < 1.0 ? __builtin_nan("") : y);
}
ALCOVE_INLINE float atanh_f32(float x) noexcept {
  const double d = x;
  const double near = d * (1.0 + d * d * (1.0 / 3));
  return round_f64(__builtin_fabs(d) < 0x1p-8 ? near : 0.5 * log_f64((1.0 + d) / (1.0 - d)));
}

// erf(a) for 0 <= a < 1, by its series: term k is 2 / sqrt(pi) * (-1)^k * a^(2k + 1) / (k! (2k + 1)).
ALCOVE_INLINE double erf_series(double a) noexcept {
  const double s = a * a;
  double p = 1.0 / (1307674368000.0 * 31);
  p = 1.0 / (87178291200.0 * 29) - p * s;
  p = 1.0 / (6227020800.0 * 27) - p * s;
  p = 1.0 / (479001600.0 * 25) - p * s;
  p = 1.0 / (39916800.0 * 23) - p * s;
  p = 1.0 / (3628800.0 * 21) - p * s;
  p = 1.0 / (362880.0 * 19) - p * s;
  p = 1.0 / (40320.0 * 17) - p * s;
  p = 1.0 / (5040.0 * 15) - p * s;
  p = 1.0 / (720.0 * 13) - p * s;
  p = 1.0 / (120.0 * 11) - p * s;
  p = 1.0 / (24.0 * 9) - p * s;
  p = 1.0 / (6.0 * 7) - p * s;
  p = 1.0 / (2.0 * 5) - p * s;
  p = 1.0 / 3 - p * s;
  p = 1.0 - p * s;
  return 1.1283791670955126 * a * p;
}

// exp(a^2) erfc(a) for a in [1, 10.5]: a polynomial in 2 / (2 + a), a minimax fit to the C library's erfc.
ALCOVE_INLINE double scaled_erfc(double a) noexcept {
  const double t = 2.0 / (2.0 + a);
  double q = 7.05702532493070189e-02;
  q = q * t - 3.67306445877483789e-01;
  q = q * t + 7.73845252752675794e-01;
  q = q * t - 7.94408881110114540e-01;
  q = q * t + 3.92952872279057508e-01;
  q = q * t - 1.92017113911095910e-01;
  q = q * t + 1.39067420414447085e-01;
  q = q * t + 1.64761380408316782e-01;
  q = q * t + 2.48504437995731270e-01;
  q = q * t + 2.81935202530168794e-01;
  q = q * t + 2.82103826167116767e-01;
  q = q * t - 2.29477521454846841e-07;
  return q;
}

ALCOVE_INLINE float erfc_f32(float x) noexcept {
  const double a = within(__builtin_fabs(static_cast<double>(x)), 0.0, 10.5);
  const double tail = a < 1.0 ? 1.0 - erf_series(a) : exp_f64(-(a * a)) * scaled_erfc(a);
  const double y = x < 0.0f ? 2.0 - tail : tail;
  return round_f64(x == x ? y : static_cast<double>(x));
}

ALCOVE_INLINE float hypot_f32(float x, float y) noexcept {
  const double a = x;
  const double b = y;
  const double root = __builtin_sqrt(a * a + b * b);
  return round_f64(__builtin_fabs(a) == kInfinityD || __builtin_fabs(b) == kInfinityD ? kInfinityD : root);
}

// C99's pow: 1 for x = 1 or y = 0 whatever the other is; NaN for a finite x < 0 and a y that is no integer.
ALCOVE_INLINE float pow_f32(float x, float y) noexcept {
  const double a = __builtin_fabs(static_cast<double>(x));
  const double e = y;
  double power = exp2_f64(e * (log_f64(a) * (1.0 / kLn2)));
  // From 2^23 on every float is an integer, from 2^24 on an even one; the magic number rounds those below.
  const double magnitude = __builtin_fabs(e);
  const double whole = (magnitude + kRoundMagicD) - kRoundMagicD;
  const double halved = 0.5 * magnitude;
  const double half_whole = (halved + kRoundMagicD) - kRoundMagicD;
  const bool is_integer = magnitude >= 0x1p24 || whole == magnitude;
  const bool is_odd = magnitude < 0x1p24 && is_integer && half_whole != halved;
  const bool is_negative = bits_of(x) >> 31 != 0;
  power = a == 1.0 ? 1.0 : power;
  power = is_negative && is_odd ? -power : power;
  power = x < 0.0f && a < kInfinityD && !is_integer ? __builtin_nan("") : power;
  power = x == x && y == y ? power : __builtin_nan("");
  return round_f64(y == 0.0f || x == 1.0f ? 1.0 : power);
}

}  // namespace
}  // namespace alcove::kernels
