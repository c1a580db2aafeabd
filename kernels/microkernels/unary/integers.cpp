// Functions of one integer or bool; no instruction set has kernels of its own for them.
#include <type_traits>

#include "kernels/microkernels/unary/unary.h"

namespace alcove::kernels {

namespace {

// Unsigned of at least 32 bits, so that arithmetic wraps and nothing is promoted to int.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
T negate(T x) noexcept {
  return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
}

template <typename T>
T apply_function(UnaryFunction function, T x) noexcept {
  switch (function) {
    case UnaryFunction::k_neg: return negate(x);
    case UnaryFunction::k_abs: return x < T{0} ? negate(x) : x;
    case UnaryFunction::k_sign: return static_cast<T>((x > T{0} ? 1 : 0) - (x < T{0} ? 1 : 0));
    case UnaryFunction::k_square: return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x));
    case UnaryFunction::k_relu: return x > T{0} ? x : T{0};
    case UnaryFunction::k_bitwise_not: return static_cast<T>(~static_cast<Wrapping<T>>(x));
    default: return x;
  }
}

template <typename T>
void unary_integer(const Unary<T>& p) noexcept {
  for (size_t i = 0; i < p.count; ++i) p.output[i] = apply_function(p.function, p.input[i]);
}

}  // namespace

void unary_i8_scalar(const Unary<int8_t>& p) noexcept { unary_integer(p); }
void unary_i32_scalar(const Unary<int32_t>& p) noexcept { unary_integer(p); }
void unary_i64_scalar(const Unary<int64_t>& p) noexcept { unary_integer(p); }
void unary_u8_scalar(const Unary<uint8_t>& p) noexcept { unary_integer(p); }

void unary_bool_scalar(const Unary<uint8_t>& p) noexcept {
  for (size_t i = 0; i < p.count; ++i) p.output[i] = p.input[i] == 0 ? 1 : 0;
}

}  // namespace alcove::kernels
