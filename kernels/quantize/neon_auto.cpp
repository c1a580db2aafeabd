// The loops, as the compiler's vectors with NEON.
#include "kernels/quantize/body.h"

namespace alcove::kernels {

void quantize_f32_neon_auto(const QuantizeF32& a) noexcept { quantize(a); }
void dequantize_i8_neon_auto(const DequantizeI8& a) noexcept { dequantize(a); }

}  // namespace alcove::kernels
