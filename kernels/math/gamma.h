// The logarithm of the gamma function, its derivatives and Hurwitz' zeta function, in float64, for arguments that are
// float32; 11 digits are enough, as in f64.h.  Numbers of formulas are those of Abramowitz and Stegun.
#pragma once

#include "kernels/math/f64.h"

namespace alcove::kernels {
namespace {

constexpr double kPi = 3.1415926535897932;
constexpr double kNanD = __builtin_nan("");
constexpr double kEulerGamma = 0.57721566490153286;

// sin(pi x) and cos(pi x): exact zeros, for every float32.
struct PiAngle {
  double sine, cosine;
};
inline PiAngle angle_of_pi(double x) noexcept {
  const double n = __builtin_rint(x);
  const double r = x - n;
  const bool is_odd = n - 2.0 * __builtin_rint(0.5 * n) != 0.0;
  const double a = __builtin_fabs(r);
  const double inner = (a > 0.25 ? 0.5 - a : a) * kPi;
  const double sine = __builtin_copysign(a > 0.25 ? cos_series(inner) : sin_series(inner), r);
  const double cosine = a > 0.25 ? sin_series(inner) : cos_series(inner);
  return is_odd ? PiAngle{-sine, -cosine} : PiAngle{sine, cosine};
}

// log(gamma(1 + w)) + log(1 + w) - (1 - Euler's constant) w for |w| <= 1/2: the sum of (-1)^k (zeta(k) - 1) w^k / k
// (Abramowitz and Stegun 6.1.33).
inline double log_gamma_series(double w) noexcept {
  constexpr double kTerms[] = {
      0.3224670334241132182,   -0.06735230105319809513,  0.02058080842778454788,   -0.007385551028673985266,
      0.002890510330741523286, -0.001192753911703260977, 0.0005096695247430424223, -0.0002231547584535793798,
      9.945751278180853371e-5, -4.49262367381331417e-5,  2.050721277567069155e-5,  -9.439488275268395904e-6,
      4.374866789907487804e-6, -2.039215753801366237e-6, 9.551412130407419833e-7,  -4.492469198764566043e-7,
      2.120718480555466587e-7, -1.004322482396809961e-7, 4.769810169363980566e-8};
  double p = 0.0;
  for (size_t i = sizeof kTerms / sizeof kTerms[0]; i-- > 0;) p = p * w + kTerms[i];
  return p * w * w;
}

// For x > 0.  Near 1 and 2, its zeros, by the series; from 8 on Stirling's (6.1.41).
inline double log_gamma_positive(double x) noexcept {
  if (x == kInfinityD) return x;
  if (x >= 8.0) {
    const double u = 1.0 / x;
    const double s = u * u;
    const double tail = u * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680))));
    return (x - 0.5) * log_f64(x) - x + 0.91893853320467274 + tail;
  }
  double factor = 1.0;
  while (x > 2.5) {
    x -= 1.0;
    factor *= x;
  }
  if (x > 1.5) return log_f64(factor) + (x - 2.0) * (1.0 - kEulerGamma) + log_gamma_series(x - 2.0);
  const double w = x < 0.5 ? x : x - 1.0;
  const double near = log_gamma_series(w) + w * (1.0 - kEulerGamma) - log_f64(1.0 + w);
  return x < 0.5 ? near - log_f64(x) : near;
}

// Infinite at 0 and the whole numbers below; there the reflection (6.1.17).
inline double log_gamma(double x) noexcept {
  if (x != x || x > 0.0) return x != x ? x : log_gamma_positive(x);
  if (x == __builtin_floor(x)) return kInfinityD;
  return log_f64(kPi / __builtin_fabs(angle_of_pi(x).sine)) - log_gamma_positive(1.0 - x);
}

// The derivative of log(gamma): the recurrence to 10 (6.3.5), then 6.3.18; below 0 the reflection (6.3.7).
inline double digamma(double x) noexcept {
  if (x == 0.0) return __builtin_copysign(kInfinityD, -x);
  if (x < 0.0) {
    if (x == __builtin_floor(x)) return kNanD;
    const PiAngle angle = angle_of_pi(x);
    return digamma(1.0 - x) - kPi * angle.cosine / angle.sine;
  }
  double sum = 0.0;
  while (x < 10.0) {
    sum -= 1.0 / x;
    x += 1.0;
  }
  const double s = 1.0 / (x * x);
  const double tail = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132)))));
  return sum + log_f64(x) - 0.5 / x - tail;
}

// The second derivative of log(gamma): 6.4.6, 6.4.12; below 1/2 the reflection (6.4.7).
inline double trigamma(double x) noexcept {
  if (x < 0.5) {
    const double sine = angle_of_pi(x).sine;
    return kPi * kPi / (sine * sine) - trigamma(1.0 - x);
  }
  double sum = 0.0;
  while (x < 10.0) {
    sum += 1.0 / (x * x);
    x += 1.0;
  }
  const double u = 1.0 / x;
  const double s = u * u;
  return sum + u + 0.5 * s + u * s * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66)))));
}

// a^-x for a > 0.
inline double inverse_power(double a, double x) noexcept { return exp2_f64(-x * (log_f64(a) * (1.0 / kLn2))); }

constexpr double kLeastZetaOffset = -256.0;

// The sum of (q + k)^-x over k >= 0, as torch has it: infinite for x = 1 and where a term is; NaN for x below 1, and for
// q below 0 unless x is whole.  Terms are added until q + k > 9 + x, or they no longer count; the rest is Euler's and
// Maclaurin's formula (23.1.30).  NaN too for q below -256, where torch adds as many terms as q is far from 0.
inline double hurwitz_zeta(double x, double q) noexcept {
  if (x == 1.0) return kInfinityD;
  if (!(x > 1.0) || q != q) return kNanD;
  if (q <= 0.0 && q == __builtin_floor(q)) return kInfinityD;
  if (q < kLeastZetaOffset || (q < 0.0 && x != __builtin_floor(x))) return kNanD;
  const bool is_odd = x - 2.0 * __builtin_floor(0.5 * x) == 1.0;
  double sum = 0.0;
  const double enough = 9.0 + (x < 64.0 ? x : 64.0);
  while (q <= enough) {
    const double term = inverse_power(__builtin_fabs(q), x);
    sum += q < 0.0 && is_odd ? -term : term;
    q += 1.0;
    if (q > 1.0 && term <= 1e-16 * sum) return sum;
  }
  // (2k)! / B(2k)
  constexpr double kDivisors[] = {12.0,           -720.0,        30240.0,           -1209600.0,         47900160.0,
                                  -1892437580.32, 74724249600.0, -2950130727918.16, 1.16467828143500e14};
  double term = inverse_power(q, x);
  sum += term * q / (x - 1.0) + 0.5 * term;
  double rising = x;
  term /= q;
  for (size_t k = 0; k < sizeof kDivisors / sizeof kDivisors[0]; ++k) {
    const double add = rising * term / kDivisors[k];
    sum += add;
    if (__builtin_fabs(add) <= 1e-12 * sum) break;
    const double next = x + 2.0 * static_cast<double>(k) + 1.0;
    rising *= next * (next + 1.0);
    term /= q * q;
  }
  return sum;
}

}  // namespace
}  // namespace alcove::kernels
