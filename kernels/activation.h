// What a product does to its output before it stores it.
#pragma once

#include <cstddef>
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

// The same of many sums that stay in registers: which function it is, is asked once.
template <class V, size_t kRows, size_t kColumns>
[[gnu::always_inline]] inline void activate_all(const Activated& a,
                                                typename V::Register (&sums)[kRows][kColumns]) noexcept {
  const auto each = [&sums](auto function) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t c = 0; c < kColumns; ++c) sums[r][c] = function(sums[r][c]);
    }
  };
  using Register = typename V::Register;
  const bool is_clamp = a.function == Activation::clamp;
  if (a.function == Activation::none) return;
  if (a.function == Activation::hardswish) {
    return each([](Register y) {
      const Register gate = V::clamp(V::add(y, V::fill(3.0f)), V::fill(0.0f), V::fill(6.0f));
      return V::multiply(V::multiply(y, gate), V::fill(kSixth));
    });
  }
  const Register low = V::fill(is_clamp ? a.low : 0.0f), high = V::fill(is_clamp ? a.high : 6.0f);
  if (!is_clamp) each([](Register y) { return V::add(y, V::fill(3.0f)); });
  each([low, high](Register y) { return V::clamp(y, low, high); });
  if (!is_clamp) each([](Register y) { return V::multiply(y, V::fill(kSixth)); });
}

}  // namespace

}  // namespace alcove::kernels
