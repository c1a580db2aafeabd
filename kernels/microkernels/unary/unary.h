// output[i] = function(input[i]), the function one of functions.inc; formulas in impl.cpp (f32) and integers.cpp (integers).
//
// Every NaN that leaves is 0x7FC00000.  Integers wrap: neg and abs of the least one are itself.
//
// The caller has checked: the function takes the type; input and output are the same bytes or don't overlap.  No pointer
// needs more alignment than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class UnaryFunction : uint8_t {
#define ALCOVE_UNARY(number, name, types, result) k_##name = number,
#include "kernels/microkernels/unary/functions.inc"
};

struct UnaryF32 {
  UnaryFunction function;
  float a, b, c;  // the function's parameters; those it has not are not read
  const float* input;
  void* output;  // float, or uint8_t (0 or 1) where functions.inc says bool
  size_t count;
};

using UnaryF32Kernel = void(const UnaryF32&) noexcept;

UnaryF32Kernel unary_f32_scalar, unary_f32_avx2, unary_f32_avx512, unary_f32_neon;

// For i8, i32, i64, u8 and, with logical_not, bool: a byte that is not 0 is true.
template <typename T>
struct Unary {
  UnaryFunction function;
  const T* input;
  T* output;
  size_t count;
};

using UnaryI8Kernel = void(const Unary<int8_t>&) noexcept;
using UnaryI32Kernel = void(const Unary<int32_t>&) noexcept;
using UnaryI64Kernel = void(const Unary<int64_t>&) noexcept;
using UnaryU8Kernel = void(const Unary<uint8_t>&) noexcept;

UnaryI8Kernel unary_i8_scalar;
UnaryI32Kernel unary_i32_scalar;
UnaryI64Kernel unary_i64_scalar;
UnaryU8Kernel unary_u8_scalar, unary_bool_scalar;

}  // namespace alcove::kernels
