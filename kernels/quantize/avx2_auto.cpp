// The loops, as the compiler's vectors of 256 bits.
#include "kernels/quantize/body.h"

namespace alcove::kernels {

void quantize_f32_avx2_auto(const QuantizeF32& a) noexcept { quantize(a); }
void dequantize_i8_avx2_auto(const DequantizeI8& a) noexcept { dequantize(a); }

}  // namespace alcove::kernels
