// Sums and products of two int8 tensors, broadcast to the output's shape.
//   add:  v = float(a - za) * ra; w = float(b - zb) * rb; output = requantize(v + w)   ra = scale a / output scale, rb alike
//   mul:  output = requantize(float((a - za) * (b - zb)) * r)                r = scale a * scale b / output scale
// (kernels/requantize.h has the rule.)  The output is laid out row by row; an input's stride is 0 where it is broadcast.
// The caller has checked: rank <= 8, zero points in [-128, 127], -128 <= low <= high <= 127.  The output may be the first
// input if that is not broadcast, and overlaps neither otherwise.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct BinaryI8 {
  const int8_t* a;
  const int8_t* b;
  int8_t* output;
  size_t rank;
  size_t dims[8];                     // of the output
  size_t a_strides[8], b_strides[8];  // in elements
  int32_t a_zero, b_zero;
  float a_ratio, b_ratio;  // mul uses a_ratio only
  int32_t zero_point, low, high;
};

using BinaryI8Kernel = void(const BinaryI8&) noexcept;

BinaryI8Kernel add_i8_scalar, add_i8_avx2, add_i8_avx512, add_i8_neon;
BinaryI8Kernel mul_i8_scalar, mul_i8_avx2, mul_i8_avx512, mul_i8_neon;

}  // namespace alcove::kernels
