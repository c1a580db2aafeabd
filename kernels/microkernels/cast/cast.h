// output[i] = input[i] as another type.
//
//   to f32    the nearest, ties to even; a bool is 0 or 1
//   to bool   1 where it is not 0 (a NaN is not)
//   f32 to i32, i64   toward zero; NaN and what is out of range gives the least integer
//   f32 to i8, u8     as to i64, then the low 8 bits
//   between integers  the low bits
//
// That is what torch does on x86.  The caller has checked: input and output don't overlap.  No pointer needs more alignment
// than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class CastType : uint8_t { f32, i8, i32, i64, u8, boolean };

struct Cast {
  CastType from, to;
  const void* input;
  void* output;
  size_t count;
};

using CastKernel = void(const Cast&) noexcept;

CastKernel cast_scalar;

}  // namespace alcove::kernels
