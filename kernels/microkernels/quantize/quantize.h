// Between float32 and int8.
//   quantize:    output = requantize(input * (1.0f / scale)) over [-128, 127]; the inverse is rounded to float32 once
//   dequantize:  output = float(input - zero_point) * scale
// (kernels/requantize.h has the rule; a NaN becomes -128.)  Any number of threads; the output overlaps no input.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct QuantizeF32 {
  const float* input;
  int8_t* output;
  size_t count;
  float scale;  // finite, > 0, as is its inverse
  int32_t zero_point;
};

struct DequantizeI8 {
  const int8_t* input;
  float* output;
  size_t count;
  float scale;
  int32_t zero_point;
};

using QuantizeF32Kernel = void(const QuantizeF32&) noexcept;
using DequantizeI8Kernel = void(const DequantizeI8&) noexcept;

QuantizeF32Kernel quantize_f32_scalar, quantize_f32_avx2, quantize_f32_avx512, quantize_f32_neon;
DequantizeI8Kernel dequantize_i8_scalar, dequantize_i8_avx2, dequantize_i8_avx512, dequantize_i8_neon;

}  // namespace alcove::kernels
