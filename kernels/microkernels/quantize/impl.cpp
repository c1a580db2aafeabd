// The loops of quantize and dequantize, compiled once for each instruction set.
#include "kernels/microkernels/quantize/quantize.h"
#include "kernels/requantize.h"
#include "kernels/simd/per_isa.h"

#if defined(ALCOVE_ISA_neon)
#include "kernels/simd/lanes16.h"
#endif

namespace alcove::kernels {

namespace {

// Locals, because a byte that is written may lie anywhere, the arguments included.
void quantize(const QuantizeF32& a) noexcept {
  const float inverse = 1.0f / a.scale;
  const Int8Range range = int8_range(-128, 127, a.zero_point);
  const float* input = a.input;
  int8_t* output = a.output;
  const size_t count = a.count;
#if defined(ALCOVE_ISA_neon)
  size_t i = 0;
  const Lanes16::Floats factors = Lanes16::fill(inverse);
  for (; i + 16 <= count; i += 16) {
    Lanes16::requantize_store(output + i, 16, Lanes16::multiply(Lanes16::load(input + i), factors), range);
  }
  for (; i < count; ++i) output[i] = requantize(input[i] * inverse, range);
#else
  for (size_t i = 0; i < count; ++i) output[i] = requantize(input[i] * inverse, range);
#endif
}

void dequantize(const DequantizeI8& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) a.output[i] = static_cast<float>(a.input[i] - a.zero_point) * a.scale;
}

}  // namespace

void ALCOVE_PER_ISA(quantize_f32)(const QuantizeF32& a) noexcept { quantize(a); }
void ALCOVE_PER_ISA(dequantize_i8)(const DequantizeI8& a) noexcept { dequantize(a); }

}  // namespace alcove::kernels
