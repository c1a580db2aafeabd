// sin, cos and tan of float32, within 1 ulp for every argument, also the greatest.
//
// First the angle is reduced to a quarter turn: r in [-pi/4, pi/4] and the number of quarters modulo 4.  Up to 2^20
// two doubles of pi/2 do, without a branch; above, 128 bits of 2/pi from where they matter (Payne and Hanek 1983).
#pragma once

#include <cstddef>

#include "kernels/math/f64.h"

namespace alcove::kernels {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr float kPlainAngle = 0x1p20f;

struct Angle {
  double r;
  uint64_t quarters;  // the lowest two bits count
};

// For |x| < kPlainAngle.
ALCOVE_INLINE Angle reduce(float x) noexcept {
  const double d = x;
  const double magic = d * 0.63661977236758134 + kRoundMagicD;
  const double n = magic - kRoundMagicD;
  // The first part of pi/2 has 33 bits, so that its product with n is exact.
  const double r = (d - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
  return {r, bits_of(magic)};
}

// For the others; NaN for infinities.  x is m * 2^k with an integer m < 2^24: of 2/pi only the bits below
// 4 * 2^-k matter, as the others add whole turns.
ALCOVE_INLINE Angle reduce_large(float x) noexcept {
  // 2/pi after the point, after 64 zeros that smaller x see.
  static constexpr uint64_t kTwoOverPi[6] = {
      0, 0xA2F9836E4E441529u, 0xFC2757D1F534DDC0u, 0xDB6295993C439041u, 0xFE5163ABDEBBC561u, 0xB7246E3A424DD2E0u};
  const uint32_t bits = bits_of(x);
  const uint32_t exponent = bits >> 23 & 0xFF;
  if (exponent == 0xFF) return {__builtin_nan(""), 0};
  const uint64_t m = (bits & 0x7FFFFF) | 0x800000;
  const uint32_t from = exponent - 150 - 2 + 64;  // first bit of the window; 2^20 gives 59
  const uint32_t word = from / 64;
  const uint32_t shift = from % 64;
  Wide window = (static_cast<Wide>(kTwoOverPi[word]) << 64 | kTwoOverPi[word + 1]) << shift;
  if (shift > 0) window |= kTwoOverPi[word + 2] >> (64 - shift);
  const Wide turns = window * m;  // of 2^128 four quarters
  const Wide quarters = (turns + (static_cast<Wide>(1) << 125)) >> 126;
  const auto rest = static_cast<int64_t>(static_cast<uint64_t>((turns - (quarters << 126)) >> 64));
  const double r = static_cast<double>(rest) * (0x1p-62 * 1.5707963267948966);
  const auto count = static_cast<uint64_t>(quarters);
  return bits >> 31 != 0 ? Angle{-r, 0 - count} : Angle{r, count};
}

ALCOVE_INLINE double sin_series(double r) noexcept {
  const double s = r * r;
  double p = 1.0 / 6227020800.0;
  p = -1.0 / 39916800 + p * s;
  p = 1.0 / 362880 + p * s;
  p = -1.0 / 5040 + p * s;
  p = 1.0 / 120 + p * s;
  p = -1.0 / 6 + p * s;
  return r * (1.0 + s * p);  // the sign of a zero stays
}

ALCOVE_INLINE double cos_series(double r) noexcept {
  const double s = r * r;
  double p = -1.0 / 87178291200.0;
  p = 1.0 / 479001600 + p * s;
  p = -1.0 / 3628800 + p * s;
  p = 1.0 / 40320 + p * s;
  p = -1.0 / 720 + p * s;
  p = 1.0 / 24 + p * s;
  p = -0.5 + p * s;
  return 1.0 + s * p;
}

// Quarters are counted from `first`: 0 for the sine, 1 for the cosine.
ALCOVE_INLINE float sine_of(Angle angle, uint64_t first) noexcept {
  const uint64_t quarters = angle.quarters + first;
  const double value = (quarters & 1) != 0 ? cos_series(angle.r) : sin_series(angle.r);
  return round_f64((quarters & 2) != 0 ? -value : value);
}

ALCOVE_INLINE float tangent_of(Angle angle) noexcept {
  const double sine = sin_series(angle.r);
  const double cosine = cos_series(angle.r);
  const bool is_turned = (angle.quarters & 1) != 0;
  return round_f64((is_turned ? -cosine : sine) / (is_turned ? sine : cosine));
}

// Applies `function` (Angle to float) to `count` elements in blocks: the plain reduction as a loop of its own, then the
// large arguments one by one.  Input and output may be the same bytes.
constexpr size_t kAngleBlock = 64;

template <typename Function>
inline void for_angles(const float* input, float* output, size_t count, Function function) noexcept {
  double r[kAngleBlock];
  uint64_t quarters[kAngleBlock];
  for (size_t start = 0; start < count; start += kAngleBlock) {
    const size_t size = count - start < kAngleBlock ? count - start : kAngleBlock;
    const float* x = input + start;
    int32_t large = 0;
    for (size_t i = 0; i < size; ++i) {
      const Angle angle = reduce(x[i]);
      r[i] = angle.r;
      quarters[i] = angle.quarters;
      large |= !(__builtin_fabsf(x[i]) < kPlainAngle);
    }
    for (size_t i = 0; large != 0 && i < size; ++i) {
      if (__builtin_fabsf(x[i]) < kPlainAngle) continue;
      const Angle angle = x[i] == x[i] ? reduce_large(x[i]) : Angle{static_cast<double>(x[i]), 0};
      r[i] = angle.r;
      quarters[i] = angle.quarters;
    }
    for (size_t i = 0; i < size; ++i) output[start + i] = function(Angle{r[i], quarters[i]});
  }
}

}  // namespace
}  // namespace alcove::kernels
