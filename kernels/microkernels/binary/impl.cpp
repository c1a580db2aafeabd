// The functions of two float32, compiled once for each instruction set: most are free of branches, so that the loops below
// become vector code, and written in single rounded steps, so that all give the same bits.
#include "kernels/microkernels/binary/walk.h"
#include "kernels/canonical.h"
#include "kernels/math/f64.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {
namespace {

// The rest of a / b with the sign of a, exact: C's fmod.  Long division of the significands, 40 bits at a time.
inline float compute_fmod(float a, float b) noexcept {
  const float x = __builtin_fabsf(a), y = __builtin_fabsf(b);
  if (!(x < kInfinityF) || !(y > 0.0f)) return __builtin_nanf("");
  if (x < y) return a;
  const uint32_t x_bits = bits_of(x), y_bits = bits_of(y);
  // Value = significand * 2^(exponent - 150); subnormals have exponent 1 and no hidden bit.
  const uint32_t x_exponent = x_bits >> 23 > 0 ? x_bits >> 23 : 1, y_exponent = y_bits >> 23 > 0 ? y_bits >> 23 : 1;
  uint64_t rest = (x_bits & 0x7FFFFF) | (x_bits >> 23 > 0 ? 0x800000 : 0);
  const uint64_t divisor = (y_bits & 0x7FFFFF) | (y_bits >> 23 > 0 ? 0x800000 : 0);
  rest %= divisor;
  for (uint32_t left = x_exponent - y_exponent; left > 0 && rest > 0;) {
    const uint32_t step = left < 40 ? left : 40;
    rest = (rest << step) % divisor;
    left -= step;
  }
  // In units of 2^(y_exponent - 150), which may be subnormal; rest < 2^24, and the product is exact.
  const float unit = float_of(y_exponent > 23 ? (y_exponent - 23) << 23 : 1u << (y_exponent - 1));
  return __builtin_copysignf(static_cast<float>(rest) * unit, a);
}

// torch's: the quotient of what the rest leaves, rounded down, brought back to an integer.
inline float divide_floor(float a, float b) noexcept {
  if (b == 0.0f) return a / b;
  const float rest = compute_fmod(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0.0f && (b < 0.0f) != (rest < 0.0f)) quotient -= 1.0f;
  if (quotient == 0.0f) return __builtin_copysignf(0.0f, a / b);
  const float whole = __builtin_floorf(quotient);
  return quotient - whole > 0.5f ? whole + 1.0f : whole;
}

// The rest with the sign of b: Python's %.
inline float compute_modulo(float a, float b) noexcept {
  const float rest = compute_fmod(a, b);
  return rest != 0.0f && (b < 0.0f) != (rest < 0.0f) ? rest + b : rest;
}

#define ALCOVE_FORMULA(name, type, formula) \
  ALCOVE_INLINE type binary_##name(float a, float b) noexcept { return formula; }

ALCOVE_FORMULA(add, float, a + b)
ALCOVE_FORMULA(sub, float, a - b)
ALCOVE_FORMULA(mul, float, a * b)
ALCOVE_FORMULA(div, float, a / b)
ALCOVE_FORMULA(floor_div, float, divide_floor(a, b))
ALCOVE_FORMULA(trunc_div, float, __builtin_truncf(a / b))
ALCOVE_FORMULA(fmod, float, compute_fmod(a, b))
ALCOVE_FORMULA(remainder, float, compute_modulo(a, b))
ALCOVE_FORMULA(pow, float, pow_f32(a, b))
ALCOVE_FORMULA(minimum, float, a < b || a != a ? a : b)
ALCOVE_FORMULA(maximum, float, a > b || a != a ? a : b)
ALCOVE_FORMULA(fmin, float, b < a || a != a ? b : a)
ALCOVE_FORMULA(fmax, float, b > a || a != a ? b : a)
ALCOVE_FORMULA(atan2, float, atan2_f32(a, b))
ALCOVE_FORMULA(hypot, float, hypot_f32(a, b))
ALCOVE_FORMULA(copysign, float, __builtin_copysignf(a, b))
ALCOVE_FORMULA(prelu, float, a > 0.0f ? a : a * b)
ALCOVE_FORMULA(eq, uint8_t, a == b ? 1 : 0)
ALCOVE_FORMULA(ne, uint8_t, a != b ? 1 : 0)
ALCOVE_FORMULA(lt, uint8_t, a < b ? 1 : 0)
ALCOVE_FORMULA(le, uint8_t, a <= b ? 1 : 0)
ALCOVE_FORMULA(gt, uint8_t, a > b ? 1 : 0)
ALCOVE_FORMULA(ge, uint8_t, a >= b ? 1 : 0)

#undef ALCOVE_FORMULA

ALCOVE_INLINE float canonicalize(float value) noexcept { return canonical(value); }
ALCOVE_INLINE uint8_t canonicalize(uint8_t value) noexcept { return value; }

// ivdep: no element depends on another, also where the output has the bytes of `a`.
template <typename T, T function(float, float)>
void float_loop(const float* a, const float* b, T* output, size_t count) noexcept {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) output[i] = canonicalize(function(a[i], b[i]));
}

bool binary_f32(const Binary<float>& p) noexcept {
  switch (p.function) {
#define ALCOVE_RESULT_same float
#define ALCOVE_RESULT_bool uint8_t
#define ALCOVE_CASE_number(name, result) \
  case BinaryFunction::k_##name:         \
    return apply<float, ALCOVE_RESULT_##result>(p, float_loop<ALCOVE_RESULT_##result, binary_##name>);
#define ALCOVE_CASE_f32(name, result) ALCOVE_CASE_number(name, result)
#define ALCOVE_CASE_any(name, result) ALCOVE_CASE_number(name, result)
#define ALCOVE_CASE_integer(name, result) \
  case BinaryFunction::k_##name:          \
    return false;
#define ALCOVE_CASE_logic(name, result) ALCOVE_CASE_integer(name, result)
#define ALCOVE_BINARY(number, name, types, result) ALCOVE_CASE_##types(name, result)
#include "kernels/microkernels/binary/functions.inc"
#undef ALCOVE_RESULT_same
#undef ALCOVE_RESULT_bool
#undef ALCOVE_CASE_number
#undef ALCOVE_CASE_f32
#undef ALCOVE_CASE_any
#undef ALCOVE_CASE_integer
#undef ALCOVE_CASE_logic
  }
  return false;
}

}  // namespace

bool ALCOVE_PER_ISA(binary_f32)(const Binary<float>& p) noexcept { return binary_f32(p); }

}  // namespace alcove::kernels
