// The functions of one float32, compiled once for each instruction set: each is free of branches, so that the loops below
// become vector code, and written in single rounded steps, so that all give the same bits.
//
// x is the operand, p holds the parameters a, b, c.
#include "kernels/activation.h"
#include "kernels/canonical.h"
#include "kernels/math/f32.h"
#include "kernels/math/f64.h"
#include "kernels/math/trig.h"
#include "kernels/simd/per_isa.h"
#include "kernels/microkernels/unary/unary.h"

namespace alcove::kernels {
namespace {

// Steps that more than one formula takes.
// exp(x) - 1, 3 ulp: near 0, where the difference would cancel, a polynomial (Taylor's).  -0 stays.
ALCOVE_INLINE float exp_minus_1(float x) noexcept {
  float q = 1.0f / 40320;
  q = fma(q, x, 1.0f / 5040);
  q = fma(q, x, 1.0f / 720);
  q = fma(q, x, 1.0f / 120);
  q = fma(q, x, 1.0f / 24);
  q = fma(q, x, 1.0f / 6);
  q = fma(q, x, 0.5f);
  return __builtin_fabsf(x) < 0.5f ? __builtin_copysignf(fma(q * x, x, x), x) : exp_f32(x) - 1.0f;
}
ALCOVE_INLINE float clamp_between(float x, float low, float high) noexcept {
  x = x < low ? low : x;
  return x > high ? high : x;
}
ALCOVE_INLINE float between_0_and_6(float x) noexcept { return within(x, 0.0f, 6.0f); }
// tanh(log(1 + e)) with e = exp(x): (e^2 + 2e) / (e^2 + 2e + 2), which is 1 from 20 on.
ALCOVE_INLINE float mish_factor(float x) noexcept {
  const float e = exp_f32(x > 20.0f ? 20.0f : x);
  const float n = e * (e + 2.0f);
  return n / (n + 2.0f);
}

// max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), with the sign of x; the first as x / 2 + |x| / 2, so that -inf gives a NaN.
ALCOVE_INLINE float gelu_by_exp(float x) noexcept {
  const float half = 0.5f * __builtin_fabsf(x);
  const float h = half < 4.0f ? half : 4.0f;
  const float far = half < 4.0f ? erfc_of_gelu(h) : 0.0f;
  return __builtin_copysignf(fma(-h, far, fma(0.5f, x, half)), x);
}
// x / (1 + exp(-gate)) by the exponential of -|gate|; gate has the sign of x.
ALCOVE_INLINE float gated_by_exp(float x, float gate) noexcept {
  const float e = exp_of_negative(__builtin_fabsf(gate));
  const float part = gate < 0.0f ? e : 1.0f;
  return x * part / (1.0f + e);
}

#define ALCOVE_FORMULA(name, type, formula) \
  ALCOVE_INLINE type unary_##name([[maybe_unused]] float x, [[maybe_unused]] const UnaryF32& p) noexcept { return formula; }

ALCOVE_FORMULA(neg, float, -x)
ALCOVE_FORMULA(abs, float, __builtin_fabsf(x))
ALCOVE_FORMULA(sign, float, (x > 0.0f ? 1.0f : 0.0f) - (x < 0.0f ? 1.0f : 0.0f))
ALCOVE_FORMULA(square, float, x * x)
ALCOVE_FORMULA(reciprocal, float, 1.0f / x)
ALCOVE_FORMULA(sqrt, float, __builtin_sqrtf(x))
ALCOVE_FORMULA(rsqrt, float, 1.0f / __builtin_sqrtf(x))
ALCOVE_FORMULA(floor, float, __builtin_floorf(x))
ALCOVE_FORMULA(ceil, float, __builtin_ceilf(x))
ALCOVE_FORMULA(trunc, float, __builtin_truncf(x))
ALCOVE_FORMULA(round, float, __builtin_rintf(x))
ALCOVE_FORMULA(frac, float, x - __builtin_truncf(x))
ALCOVE_FORMULA(exp, float, exp_f32(x))
ALCOVE_FORMULA(exp2, float, exp2_f32(x))
ALCOVE_FORMULA(expm1, float, expm1_f32(x))
ALCOVE_FORMULA(log, float, log_f32(x))
ALCOVE_FORMULA(log2, float, log2_f32(x))
ALCOVE_FORMULA(log10, float, log10_f32(x))
ALCOVE_FORMULA(log1p, float, log1p_f32(x))
ALCOVE_FORMULA(asin, float, asin_f32(x))
ALCOVE_FORMULA(acos, float, acos_f32(x))
ALCOVE_FORMULA(atan, float, atan_f32(x))
ALCOVE_FORMULA(sinh, float, sinh_f32(x))
ALCOVE_FORMULA(cosh, float, cosh_f32(x))
ALCOVE_FORMULA(tanh, float, tanh_f32(x))
ALCOVE_FORMULA(asinh, float, asinh_f32(x))
ALCOVE_FORMULA(acosh, float, acosh_f32(x))
ALCOVE_FORMULA(atanh, float, atanh_f32(x))
ALCOVE_FORMULA(erf, float, erf_f32(x))
ALCOVE_FORMULA(erfc, float, erfc_f32(x))
ALCOVE_FORMULA(sigmoid, float, sigmoid_f32(x))
ALCOVE_FORMULA(log_sigmoid, float, (x > 0.0f ? 0.0f : x) - log1p_f32(exp_f32(-__builtin_fabsf(x))))
ALCOVE_FORMULA(softplus, float, x * p.a > p.b ? x : log1p_f32(exp_f32(x * p.a)) / p.a)
ALCOVE_FORMULA(relu, float, x < 0.0f ? 0.0f : x)
ALCOVE_FORMULA(clamp, float, clamp_between(x, p.a, p.b))
ALCOVE_FORMULA(leaky_relu, float, x > 0.0f ? x : x * p.a)
ALCOVE_FORMULA(elu, float, x > 0.0f ? x * p.b : exp_minus_1(x * p.c) * (p.a * p.b))
// At -inf NaN, as the formula has it everywhere.
ALCOVE_FORMULA(gelu, float, x * 0.5f * (1.0f + erf_f32(x * 0.707106781186547524f)))
ALCOVE_FORMULA(gelu_tanh, float,
               0.5f * x * (1.0f + tanh_f32(0.797884560802865356f * (x + 0.044715f * (x * x * x)))))
ALCOVE_FORMULA(silu, float, x / (1.0f + exp_f32(-x)))
ALCOVE_FORMULA(gelu_exp, float, gelu_by_exp(x))
ALCOVE_FORMULA(gelu_tanh_exp, float, gated_by_exp(x, 1.595769121605730711f * (x + 0.044715f * (x * x * x))))
ALCOVE_FORMULA(silu_exp, float, gated_by_exp(x, x))
ALCOVE_FORMULA(mish, float, x * mish_factor(x))
ALCOVE_FORMULA(hardswish, float, x * between_0_and_6(x + 3.0f) * kSixth)
ALCOVE_FORMULA(hardsigmoid, float, between_0_and_6(x + 3.0f) * kSixth)
ALCOVE_FORMULA(softshrink, float, x > p.a ? x - p.a : (x < -p.a ? x + p.a : (x == x ? 0.0f : x)))
ALCOVE_FORMULA(hardshrink, float, x >= -p.a && x <= p.a ? 0.0f : x)
ALCOVE_FORMULA(threshold, float, x <= p.a ? p.b : x)
ALCOVE_FORMULA(nan_to_num, float, x != x ? p.a : (x == kInfinityF ? p.b : (x == -kInfinityF ? p.c : x)))
ALCOVE_FORMULA(isnan, uint8_t, x != x ? 1 : 0)
ALCOVE_FORMULA(isinf, uint8_t, __builtin_fabsf(x) == kInfinityF ? 1 : 0)
ALCOVE_FORMULA(isfinite, uint8_t, __builtin_fabsf(x) < kInfinityF ? 1 : 0)
ALCOVE_FORMULA(signbit, uint8_t, static_cast<uint8_t>(bits_of(x) >> 31))

#undef ALCOVE_FORMULA

ALCOVE_INLINE float canonicalize(float value) noexcept { return canonical(value); }
ALCOVE_INLINE uint8_t canonicalize(uint8_t value) noexcept { return value; }

// ivdep: no element depends on another, also where input and output are the same bytes.
template <typename T, T function(float, const UnaryF32&)>
void unary_loop(const UnaryF32& p) noexcept {
  const float* input = p.input;
  T* output = static_cast<T*>(p.output);
  const UnaryF32 parameters = p;
#pragma GCC ivdep
  for (size_t i = 0; i < p.count; ++i) output[i] = canonicalize(function(input[i], parameters));
}

void unary_sin(const UnaryF32& p) noexcept {
  for_angles(p.input, static_cast<float*>(p.output), p.count, [](Angle x) { return canonical(sine_of(x, 0)); });
}
void unary_cos(const UnaryF32& p) noexcept {
  for_angles(p.input, static_cast<float*>(p.output), p.count, [](Angle x) { return canonical(sine_of(x, 1)); });
}
void unary_tan(const UnaryF32& p) noexcept {
  for_angles(p.input, static_cast<float*>(p.output), p.count, [](Angle x) { return canonical(tangent_of(x)); });
}

void unary_f32(const UnaryF32& p) noexcept {
  switch (p.function) {
#define ALCOVE_RESULT_same float
#define ALCOVE_RESULT_bool uint8_t
#define ALCOVE_CASE_f32(name, result) \
  case UnaryFunction::k_##name:       \
    return unary_loop<ALCOVE_RESULT_##result, unary_##name>(p);
#define ALCOVE_CASE_number(name, result) ALCOVE_CASE_f32(name, result)
#define ALCOVE_CASE_angle(name, result) \
  case UnaryFunction::k_##name:         \
    return unary_##name(p);
#define ALCOVE_CASE_integer(name, result) \
  case UnaryFunction::k_##name:           \
    return;
#define ALCOVE_CASE_bool(name, result) ALCOVE_CASE_integer(name, result)
#define ALCOVE_UNARY(number, name, types, result) ALCOVE_CASE_##types(name, result)
#include "kernels/microkernels/unary/functions.inc"
#undef ALCOVE_RESULT_same
#undef ALCOVE_RESULT_bool
#undef ALCOVE_CASE_f32
#undef ALCOVE_CASE_number
#undef ALCOVE_CASE_angle
#undef ALCOVE_CASE_integer
#undef ALCOVE_CASE_bool
  }
}

}  // namespace

void ALCOVE_PER_ISA(unary_f32)(const UnaryF32& p) noexcept { unary_f32(p); }

}  // namespace alcove::kernels
