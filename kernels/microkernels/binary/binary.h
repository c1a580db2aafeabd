// output[i] = function(a[..], b[..]), the function one of functions.inc, operands repeated along dimensions of stride 0.
// Formulas: impl.cpp (f32), integers.cpp (integers and bool).
//
// Every NaN that leaves is 0x7FC00000.  Integers wrap: the least divided by -1 is itself.
//
// The caller has checked: the function takes the type; rank at most 8, sizes at least 1; every element that the strides
// reach is there; the output is row-major and overlaps no operand, but may be exactly `a` if `a` is walked like the output.
// No pointer needs more alignment than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/binary/broadcast.h"

namespace alcove::kernels {

enum class BinaryFunction : uint8_t {
#define ALCOVE_BINARY(number, name, types, result) k_##name = number,
#include "kernels/microkernels/binary/functions.inc"
};

template <typename T>
struct Binary {
  BinaryFunction function;
  const T* a;
  const T* b;
  void* output;  // T, or uint8_t (0 or 1) where functions.inc says bool
  BroadcastShape shape;
  size_t a_strides[kBroadcastRank], b_strides[kBroadcastRank];  // in elements
};

// False: an integer was to be divided by zero; the output then holds anything.
template <typename T>
using BinaryKernel = bool(const Binary<T>&) noexcept;

BinaryKernel<float> binary_f32_scalar, binary_f32_avx2, binary_f32_avx512, binary_f32_neon;
BinaryKernel<int8_t> binary_i8_scalar;
BinaryKernel<int32_t> binary_i32_scalar;
BinaryKernel<int64_t> binary_i64_scalar;
// For bool a byte that is not 0 is true.
BinaryKernel<uint8_t> binary_u8_scalar, binary_bool_scalar;

}  // namespace alcove::kernels
