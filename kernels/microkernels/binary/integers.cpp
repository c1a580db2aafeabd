// Functions of two integers or bools; no instruction set has kernels of its own for them.
#include <type_traits>

#include "kernels/microkernels/binary/walk.h"

namespace alcove::kernels {

namespace {

// Unsigned of at least 32 bits, so that arithmetic wraps and nothing is promoted to int.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Rounded toward zero; b is not 0.  The least divided by -1 wraps to itself instead of trapping.
template <typename T>
T divide(T a, T b) noexcept {
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  }
  return static_cast<T>(a / b);
}

template <typename T>
T compute_rest(T a, T b) noexcept {
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return T{0};
  }
  return static_cast<T>(a % b);
}

template <typename T>
bool is_inexact_below(T a, T b) noexcept {
  return compute_rest(a, b) != T{0} && (a < T{0}) != (b < T{0});
}

// Wraps; for an exponent below 0 the power rounded toward zero, 0 for base 0.
template <typename T>
T power(T base, T exponent) noexcept {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < T{0}) {
      if (base == T{1}) return base;
      if (base == T{-1}) return static_cast<T>(exponent % 2 == 0 ? 1 : -1);
      return T{0};
    }
  }
  Wrapping<T> result = 1;
  auto factor = static_cast<Wrapping<T>>(base);
  for (auto left = static_cast<Wrapping<T>>(exponent); left > 0; left >>= 1) {
    if ((left & 1) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

// Beyond the width every bit is gone; a right shift leaves the sign.
template <typename T>
T shift_left(T a, T b) noexcept {
  constexpr uint64_t kBits = sizeof(T) * 8;
  if (b < T{0} || static_cast<uint64_t>(b) >= kBits) return T{0};
  return static_cast<T>(static_cast<Wrapping<T>>(a) << b);
}

template <typename T>
T shift_right(T a, T b) noexcept {
  constexpr uint64_t kBits = sizeof(T) * 8;
  if (b < T{0} || static_cast<uint64_t>(b) >= kBits) return a < T{0} ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> b);
}

#define ALCOVE_FORMULA(name, formula)            \
  template <typename T>                          \
  auto integer_##name(T a, T b) noexcept {       \
    using W [[maybe_unused]] = Wrapping<T>;      \
    return formula;                              \
  }

ALCOVE_FORMULA(add, static_cast<T>(static_cast<W>(a) + static_cast<W>(b)))
ALCOVE_FORMULA(sub, static_cast<T>(static_cast<W>(a) - static_cast<W>(b)))
ALCOVE_FORMULA(mul, static_cast<T>(static_cast<W>(a) * static_cast<W>(b)))
ALCOVE_FORMULA(trunc_div, divide(a, b))
ALCOVE_FORMULA(floor_div, is_inexact_below(a, b) ? static_cast<T>(divide(a, b) - 1) : divide(a, b))
ALCOVE_FORMULA(fmod, compute_rest(a, b))
ALCOVE_FORMULA(remainder, is_inexact_below(a, b) ? static_cast<T>(compute_rest(a, b) + b) : compute_rest(a, b))
ALCOVE_FORMULA(pow, power(a, b))
ALCOVE_FORMULA(minimum, a < b ? a : b)
ALCOVE_FORMULA(maximum, a > b ? a : b)
ALCOVE_FORMULA(bitwise_and, static_cast<T>(a & b))
ALCOVE_FORMULA(bitwise_or, static_cast<T>(a | b))
ALCOVE_FORMULA(bitwise_xor, static_cast<T>(a ^ b))
ALCOVE_FORMULA(shift_left, shift_left(a, b))
ALCOVE_FORMULA(shift_right, shift_right(a, b))
ALCOVE_FORMULA(eq, static_cast<uint8_t>(a == b))
ALCOVE_FORMULA(ne, static_cast<uint8_t>(a != b))
ALCOVE_FORMULA(lt, static_cast<uint8_t>(a < b))
ALCOVE_FORMULA(le, static_cast<uint8_t>(a <= b))
ALCOVE_FORMULA(gt, static_cast<uint8_t>(a > b))
ALCOVE_FORMULA(ge, static_cast<uint8_t>(a >= b))

#undef ALCOVE_FORMULA

template <typename T, typename Result, Result function(T, T), bool is_truth>
void integer_loop(const T* a, const T* b, Result* output, size_t count) noexcept {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) output[i] = is_truth ? function(a[i] != T{0}, b[i] != T{0}) : function(a[i], b[i]);
}

template <typename T>
bool has_zero(const Binary<T>& p) noexcept {
  bool found = false;
  const Walk<1> walk = joined<1>(p.shape, {&p.b_strides});
  const size_t last = walk.rank - 1;
  for_runs(walk, [&](const size_t (&offsets)[1], size_t) {
    const T* b = p.b + offsets[0];
    for (size_t i = 0; i < walk.dims[last]; ++i) found |= b[i * walk.strides[0][last]] == T{0};
  });
  return found;
}

bool divides(BinaryFunction function) noexcept {
  return function == BinaryFunction::k_floor_div || function == BinaryFunction::k_trunc_div ||
         function == BinaryFunction::k_fmod || function == BinaryFunction::k_remainder;
}

template <typename T, bool is_truth>
bool binary_whole(const Binary<T>& p) noexcept {
  if (!is_truth && divides(p.function) && has_zero(p)) return false;
  switch (p.function) {
#define ALCOVE_RESULT_same T
#define ALCOVE_RESULT_bool uint8_t
#define ALCOVE_CASE_any(name, result) \
  case BinaryFunction::k_##name:      \
    return apply<T, ALCOVE_RESULT_##result>(p, integer_loop<T, ALCOVE_RESULT_##result, integer_##name<T>, is_truth>);
#define ALCOVE_CASE_logic(name, result) ALCOVE_CASE_any(name, result)
#define ALCOVE_CASE_integer(name, result)                                                           \
  case BinaryFunction::k_##name:                                                                    \
    if constexpr (is_truth) return false;                                                                      \
    else return apply<T, ALCOVE_RESULT_##result>(p, integer_loop<T, ALCOVE_RESULT_##result, integer_##name<T>, false>);
#define ALCOVE_CASE_number(name, result) ALCOVE_CASE_integer(name, result)
#define ALCOVE_CASE_f32(name, result) \
  case BinaryFunction::k_##name:      \
    return false;
#define ALCOVE_BINARY(number, name, types, result) ALCOVE_CASE_##types(name, result)
#include "kernels/microkernels/binary/functions.inc"
#undef ALCOVE_RESULT_same
#undef ALCOVE_RESULT_bool
#undef ALCOVE_CASE_any
#undef ALCOVE_CASE_logic
#undef ALCOVE_CASE_integer
#undef ALCOVE_CASE_number
#undef ALCOVE_CASE_f32
  }
  return false;
}

}  // namespace

bool binary_i8_scalar(const Binary<int8_t>& p) noexcept { return binary_whole<int8_t, false>(p); }
bool binary_i32_scalar(const Binary<int32_t>& p) noexcept { return binary_whole<int32_t, false>(p); }
bool binary_i64_scalar(const Binary<int64_t>& p) noexcept { return binary_whole<int64_t, false>(p); }
bool binary_u8_scalar(const Binary<uint8_t>& p) noexcept { return binary_whole<uint8_t, false>(p); }
bool binary_bool_scalar(const Binary<uint8_t>& p) noexcept { return binary_whole<uint8_t, true>(p); }

}  // namespace alcove::kernels
