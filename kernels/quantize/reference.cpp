// The truth: the loops as they stand.
#include "kernels/quantize/body.h"

namespace alcove::kernels {

void quantize_f32_reference(const QuantizeF32& a) noexcept { quantize(a); }
void dequantize_i8_reference(const DequantizeI8& a) noexcept { dequantize(a); }

}  // namespace alcove::kernels
