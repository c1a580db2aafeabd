// Functions of the normal distribution, in float64, for arguments that are float32.
#pragma once

#include "kernels/math/f64.h"

namespace alcove::kernels {
namespace {

constexpr double kRootHalf = 0.70710678118654752;

// exp(a^2) erfc(a) for a >= 0; from 10.5 on its asymptotic series (Abramowitz and Stegun 7.1.23).
inline double erfcx_positive(double a) noexcept {
  if (a < 1.0) return exp_f64(a * a) * (1.0 - erf_series(a));
  if (a < 10.5) return scaled_erfc(a);
  const double s = 0.5 / (a * a);
  return 0.56418958354775629 / a * (1.0 - s * (1.0 - s * (3.0 - s * (15.0 - s * 105.0))));
}

inline double erfcx(double x) noexcept {
  if (x != x) return x;
  const double tail = erfcx_positive(__builtin_fabs(x));
  return x < 0.0 ? 2.0 * exp_f64(x * x) - tail : tail;
}

// The logarithm of the probability that a normal number is at most x.
inline double log_ndtr(double x) noexcept {
  if (x != x) return x;
  const double t = x * kRootHalf;
  if (x < -1.0) return x == -kInfinityD ? x : log_f64(0.5 * erfcx_positive(-t)) - t * t;
  const double a = __builtin_fabs(t);
  double rest = a < 1.0 ? 1.0 - erf_series(a) : (a < 10.5 ? exp_f64(-t * t) * scaled_erfc(a) : 0.0);
  rest = 0.5 * (t < 0.0 ? 2.0 - rest : rest);
  return rest < 1e-5 ? -rest * (1.0 + 0.5 * rest) : log_f64(1.0 - rest);
}

// a[0] + a[1] r + ... + a[7] r^7
inline double polynomial8(const double (&a)[8], double r) noexcept {
  double p = a[7];
  for (int i = 6; i >= 0; --i) p = p * r + a[i];
  return p;
}

// The normal quantile of 1/2 + q, `tail` being 1/2 - |q|; Wichura (1988), algorithm AS 241.
inline double normal_quantile(double q, double tail) noexcept {
  constexpr double kInner[2][8] = {
      {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
       4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
      {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
       3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
  constexpr double kMiddle[2][8] = {
      {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
       1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
      {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
       1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
  constexpr double kOuter[2][8] = {
      {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
       2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
      {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
       1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};
  if (__builtin_fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial8(kInner[0], r) / polynomial8(kInner[1], r);
  }
  const double r = __builtin_sqrt(-log_f64(tail));
  const auto& table = r <= 5.0 ? kMiddle : kOuter;
  const double s = r - (r <= 5.0 ? 1.6 : 5.0);
  return __builtin_copysign(polynomial8(table[0], s) / polynomial8(table[1], s), q);
}

inline double ndtri(double p) noexcept {
  if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -kInfinityD : (p == 1.0 ? kInfinityD : __builtin_nan(""));
  return normal_quantile(p - 0.5, p < 0.5 ? p : 1.0 - p);
}

inline double erfinv(double x) noexcept {
  const double a = __builtin_fabs(x);
  if (!(a < 1.0)) return a == 1.0 ? __builtin_copysign(kInfinityD, x) : __builtin_nan("");
  return kRootHalf * normal_quantile(0.5 * x, 0.5 - 0.5 * a);
}

}  // namespace
}  // namespace alcove::kernels
