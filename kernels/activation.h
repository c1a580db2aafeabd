// What a product does to its output before it stores it.
#pragma once

#include <cstdint>

namespace alcove::kernels {

// The numbers are those of the program format.
enum class Activation : uint8_t { none = 0, clamp = 1, hardswish = 2, hardsigmoid = 3 };

// `low` and `high` are of clamp, infinite for all others.
struct Activated {
  Activation function = Activation::none;
  float low = -__builtin_inff();
  float high = __builtin_inff();
};

inline constexpr float kSixth = 1.0f / 6.0f;

namespace {

// The formulas of kernels/microkernels/unary, for a vector type V of kernels/simd.
template <class V>
typename V::Register activate(const Activated& a, typename V::Register y) noexcept {
  if (a.function == Activation::none) return y;
  if (a.function == Activation::clamp) return V::clamp(y, V::fill(a.low), V::fill(a.high));
  const typename V::Register gate = V::clamp(V::add(y, V::fill(3.0f)), V::fill(0.0f), V::fill(6.0f));
  return V::multiply(a.function == Activation::hardswish ? V::multiply(y, gate) : gate, V::fill(kSixth));
}

}  // namespace

}  // namespace alcove::kernels
