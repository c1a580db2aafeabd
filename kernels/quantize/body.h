// The loops of quantize and dequantize, compiled once for each instruction set.
#pragma once

#include "kernels/quantize/quantize.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

// Locals, because a byte that is written may lie anywhere, the arguments included.
void quantize(const QuantizeF32& a) noexcept {
  const float inverse = 1.0f / a.scale;
  const Int8Range range = int8_range(-128, 127, a.zero_point);
  const float* input = a.input;
  int8_t* output = a.output;
  const size_t count = a.count;
  for (size_t i = 0; i < count; ++i) output[i] = requantize(input[i] * inverse, range);
}

void dequantize(const DequantizeI8& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) a.output[i] = static_cast<float>(a.input[i] - a.zero_point) * a.scale;
}

}  // namespace

}  // namespace alcove::kernels
