// Bessel functions of the orders 0 and 1, in float64, for arguments that are float32.
//
// Small arguments by power series, large ones by asymptotic series (Abramowitz and Stegun 9.1, 9.2, 9.6, 9.7), and K
// between them by an integral over cosh, whose trapezoidal sum converges like exp(-pi^2 / step).
#pragma once

#include "kernels/math/trig.h"

namespace alcove::kernels {
namespace {

constexpr double kEuler = 0.57721566490153286;
constexpr double kOnePi = 3.1415926535897932;
constexpr double kLargeModified = 20.0;  // from here the asymptotic series of I and K end below 1e-12
constexpr double kLargeOrdinary = 12.0;  // below it the power series of J and Y lose 5 digits of 16
constexpr int kMostTerms = 64;

// Sums over k of t = (sign x^2 / 4)^k / (k! (k + order)!), and of t (H(k) + H(k + order)), H the harmonic numbers.
struct PowerSums {
  double plain, harmonic;
};
inline PowerSums power_sums(double x, int order, double sign) noexcept {
  const double q = sign * 0.25 * x * x;
  double term = 1.0, low = 0.0, high = order == 1 ? 1.0 : 0.0;
  PowerSums sums = {1.0, high};
  for (int k = 1; k < kMostTerms && __builtin_fabs(term) > 1e-18; ++k) {
    const double upper = k + order;
    term *= q / (k * upper);
    low += 1.0 / k;
    high += 1.0 / upper;
    sums.plain += term;
    sums.harmonic += term * (low + high);
  }
  return sums;
}

// The terms of the asymptotic series, a(k) / x^k, of even and of odd k; the signs of each alternate by `sign`.
struct AsymptoticSums {
  double even, odd;
};
inline AsymptoticSums asymptotic_sums(double x, int order, double sign) noexcept {
  const double mu = 4.0 * order;
  double term = 1.0;
  AsymptoticSums sums = {1.0, 0.0};
  double turn = 1.0;
  for (int k = 1; k < 24; ++k) {
    const double odd = 2.0 * k - 1.0;
    term *= (mu - odd * odd) / (8.0 * k * x);
    if ((k & 1) != 0) {
      sums.odd += turn * term;
      turn *= sign;
    } else {
      sums.even += turn * term;
    }
  }
  return sums;
}

// exp(-|x|) I(x)
inline double scaled_bessel_i(double x, int order) noexcept {
  const double a = __builtin_fabs(x);
  double y;
  if (a < kLargeModified) {
    y = power_sums(a, order, 1.0).plain * (order == 1 ? 0.5 * a : 1.0) * exp_f64(-a);
  } else {
    const AsymptoticSums sums = asymptotic_sums(a, order, 1.0);
    y = (sums.even - sums.odd) / __builtin_sqrt(2.0 * kOnePi * a);
  }
  return order == 1 && x < 0.0 ? -y : y;
}
// NaN at infinity, as torch has it.
inline double bessel_i(double x, int order) noexcept {
  const double a = __builtin_fabs(x);
  if (a == kInfinityD) return __builtin_nan("");
  return scaled_bessel_i(x, order) * (a < kLargeModified ? 1.0 / exp_f64(-a) : exp_f64(a));
}

// exp(x) K(x)
inline double scaled_bessel_k(double x, int order) noexcept {
  if (!(x > 0.0)) return x == 0.0 ? kInfinityD : __builtin_nan("");
  if (x >= kLargeModified) {
    const AsymptoticSums sums = asymptotic_sums(x, order, 1.0);
    return (sums.even + sums.odd) * __builtin_sqrt(0.5 * kOnePi / x);
  }
  if (x <= 1.0) {
    const PowerSums sums = power_sums(x, order, 1.0);
    const double log = log_f64(0.5 * x) + kEuler;
    const double y = order == 0 ? 0.5 * sums.harmonic - log * sums.plain
                                : 1.0 / x + 0.5 * x * (log * sums.plain - 0.5 * sums.harmonic);
    return y * exp_f64(x);
  }
  // The integral over t >= 0 of exp(-x (cosh(t) - 1)) cosh(order t) (9.6.24): cosh by its recurrence, in steps of 1/5.
  constexpr double kStep = 0.2;
  constexpr double kCoshStep = 1.0200667556190759;
  double sum = 0.5, before = kCoshStep, cosh = 1.0;
  for (int k = 1; k < 24; ++k) {
    const double next = 2.0 * kCoshStep * cosh - before;
    before = cosh;
    cosh = next;
    sum += exp_f64(x * (1.0 - cosh)) * (order == 1 ? cosh : 1.0);
  }
  return kStep * sum;
}
inline double bessel_k(double x, int order) noexcept { return scaled_bessel_k(x, order) * exp_f64(-x); }

// J and Y of a >= kLargeOrdinary: a wave of x less a number of eighths of a turn.
struct Waves {
  double j, y;
};
inline Waves large_bessel(float a, int order) noexcept {
  const Angle angle = a < kPlainAngle ? reduce(a) : reduce_large(a);
  const double plain_sine = sin_series(angle.r), plain_cosine = cos_series(angle.r);
  const bool is_turned = (angle.quarters & 1) != 0;
  double sine = is_turned ? plain_cosine : plain_sine;
  double cosine = is_turned ? -plain_sine : plain_cosine;
  if ((angle.quarters & 2) != 0) {
    sine = -sine;
    cosine = -cosine;
  }
  // sqrt(2) times the cosine and the sine of x - pi / 4 or x - 3 pi / 4
  const double along = order == 0 ? cosine + sine : sine - cosine;
  const double up = order == 0 ? sine - cosine : -(sine + cosine);
  const AsymptoticSums sums = asymptotic_sums(a, order, -1.0);
  const double size = 1.0 / __builtin_sqrt(kOnePi * a);
  return {size * (sums.even * along - sums.odd * up), size * (sums.even * up + sums.odd * along)};
}

inline double bessel_j(float x, int order) noexcept {
  if (x != x) return static_cast<double>(x);
  const float a = __builtin_fabsf(x);
  const double y =
      a < kLargeOrdinary ? power_sums(a, order, -1.0).plain * (order == 1 ? 0.5 * a : 1.0) : large_bessel(a, order).j;
  return order == 1 && x < 0.0f ? -y : y;
}

inline double bessel_y(float x, int order) noexcept {
  if (!(x > 0.0f)) return x == 0.0f ? -kInfinityD : __builtin_nan("");
  if (x >= kLargeOrdinary) return large_bessel(x, order).y;
  const double d = x;
  const PowerSums sums = power_sums(d, order, -1.0);
  const double log = log_f64(0.5 * d) + kEuler;
  if (order == 0) return 2.0 / kOnePi * (log * sums.plain - 0.5 * sums.harmonic);
  return (d * (log * sums.plain - 0.5 * sums.harmonic) - 2.0 / d) / kOnePi;
}

// sin(x) / x
inline double spherical_bessel_j0(float x) noexcept {
  if (x != x || __builtin_fabsf(x) == __builtin_inff()) return x != x ? static_cast<double>(x) : 0.0;
  if (__builtin_fabsf(x) < 1e-3f) return 1.0 - static_cast<double>(x) * x * (1.0 / 6);
  const Angle angle = __builtin_fabsf(x) < kPlainAngle ? reduce(x) : reduce_large(x);
  const double value = (angle.quarters & 1) != 0 ? cos_series(angle.r) : sin_series(angle.r);
  return ((angle.quarters & 2) != 0 ? -value : value) / x;
}

}  // namespace
}  // namespace alcove::kernels
