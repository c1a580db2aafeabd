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

// Whether it is a clamp that clamp_nonzero of a vector gives the bits of.
inline bool is_nonzero_clamp(const Activated& a) noexcept { return a.function == Activation::clamp && a.high != 0.0f; }

// The constants of hardswish and hardsigmoid.
template <class V>
struct HardGate {
  using Register = typename V::Register;
  Register three = V::fill(3.0f), low = V::fill(0.0f), high = V::fill(6.0f), sixth = V::fill(kSixth);

  // y + 3 between 0 and 6.
  Register open(Register y) const noexcept {
    const Register sum = V::add(y, three);
    if constexpr (requires { V::clamp_sum(sum, low, high); }) {
      return V::clamp_sum(sum, low, high);
    } else {
      return V::clamp(sum, low, high);
    }
  }
  Register hardswish(Register y) const noexcept { return V::multiply(V::multiply(y, open(y)), sixth); }
};

// The formulas of kernels/microkernels/unary, for a vector type V of kernels/simd.
template <class V>
typename V::Register activate(const Activated& a, typename V::Register y) noexcept {
  if (a.function == Activation::none) return y;
  if (a.function == Activation::clamp) return V::clamp(y, V::fill(a.low), V::fill(a.high));
  const HardGate<V> gate;
  const typename V::Register open = gate.open(y);
  return V::multiply(a.function == Activation::hardswish ? V::multiply(y, open) : open, gate.sixth);
}

// A clamp whose upper bound is not 0, of many sums, in their own registers, so that neighbours are stored in pairs.
template <class V, size_t kRows, size_t kColumns>
[[gnu::always_inline]] inline void clamp_all(const Activated& a,
                                             typename V::Register (&sums)[kRows][kColumns]) noexcept {
  const typename V::Register low = V::fill(a.low), high = V::fill(a.high);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kColumns; ++c) sums[r][c] = V::clamp_nonzero(sums[r][c], low, high);
  }
}

// The same of many sums that stay in registers: calls store(f), which is to store f(sum) of each.  The common functions have
// stores of their own: where they meet, sums would have to change registers.
template <class V, size_t kRows, size_t kColumns, class Store>
[[gnu::always_inline]] inline void activate_all(const Activated& a, typename V::Register (&sums)[kRows][kColumns],
                                                Store store) noexcept {
  using Register = typename V::Register;
  if (is_nonzero_clamp(a)) {
    clamp_all<V>(a, sums);
    return store([](Register y) { return y; });
  }
  if (a.function == Activation::hardswish) {
    const HardGate<V> gate;
    return store([&](Register y) { return gate.hardswish(y); });
  }
  if (a.function != Activation::none) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t c = 0; c < kColumns; ++c) sums[r][c] = activate<V>(a, sums[r][c]);
    }
  }
  store([](Register y) { return y; });
}

}  // namespace

}  // namespace alcove::kernels
