// output[i] = function(a[..], b[..]), the function one of functions.inc, operands repeated along dimensions of stride 0.
// Formulas: body.h (f32), reference.cpp (integers and bool).
//
// Every NaN that leaves is 0x7FC00000.  Integers wrap: the least divided by -1 is itself.
//
// The caller has checked: the function takes the type; rank at most 8, sizes at least 1; every element that the strides
// reach is there; the output is row-major and overlaps no operand, but may be exactly `a` if `a` is walked like the output.
// No pointer needs more alignment than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/binary/broadcast.h"

namespace alcove::kernels {

enum class BinaryFunction : uint8_t {
#define ALCOVE_BINARY(number, name, types, result) k_##name = number,
#include "kernels/binary/functions.inc"
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

BinaryKernel<float> binary_f32_reference, binary_f32_avx2_auto, binary_f32_avx512_auto, binary_f32_neon_auto;
BinaryKernel<int8_t> binary_i8_reference;
BinaryKernel<int32_t> binary_i32_reference;
BinaryKernel<int64_t> binary_i64_reference;
// For bool a byte that is not 0 is true.
BinaryKernel<uint8_t> binary_u8_reference, binary_bool_reference;

}  // namespace alcove::kernels
