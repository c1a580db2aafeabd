// What every function of kernels/math is written with: numbers as bits, powers of two, choices without branches.
//
// Everything in kernels/math has internal linkage, because these headers are compiled once for each instruction set and
// the linker must never choose a copy made for a wider one.  Only + - * / sqrt and fma are used, and no fma is left to the
// compiler's choice, so every compilation gives the same bits.
#pragma once

#include <cstdint>

// A function left out of line would leave the loops that call it scalar.
#define ALCOVE_INLINE [[maybe_unused, gnu::always_inline]] inline

namespace alcove::kernels {
namespace {

constexpr float kInfinityF = __builtin_inff();
constexpr double kInfinityD = __builtin_inf();

ALCOVE_INLINE uint32_t bits_of(float x) noexcept { return __builtin_bit_cast(uint32_t, x); }
ALCOVE_INLINE uint64_t bits_of(double x) noexcept { return __builtin_bit_cast(uint64_t, x); }
ALCOVE_INLINE float float_of(uint32_t x) noexcept { return __builtin_bit_cast(float, x); }
ALCOVE_INLINE double double_of(uint64_t x) noexcept { return __builtin_bit_cast(double, x); }

// One rounding.  Scalar kernels call the C library's exact fma where the instruction set has none.
ALCOVE_INLINE float fma(float a, float b, float c) noexcept { return __builtin_fmaf(a, b, c); }

// `chosen` where the condition holds, else `x`, and no branch: GCC would join two that follow each other, and know what the first
// leaves out to the second by comparisons that NEON does not have.
ALCOVE_INLINE float choose(bool condition, float chosen, float x) noexcept {
#if defined(__aarch64__)
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return float_of(bits_of(x) ^ ((bits_of(x) ^ bits_of(chosen)) & mask));
#else
  return condition ? chosen : x;
#endif
}
ALCOVE_INLINE double choose(bool condition, double chosen, double x) noexcept { return condition ? chosen : x; }

// `x` within [low, high]; a NaN stays one.
template <typename T>
ALCOVE_INLINE T within(T x, T low, T high) noexcept {
  x = choose(x > high, high, x);
  return choose(x < low, low, x);
}

}  // namespace
}  // namespace alcove::kernels
