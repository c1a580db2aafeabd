// NEON: 4 rows or pixels of 16 outputs.
#include "kernels/lanes16_neon.h"

#include "kernels/linear_weight_i8/body.h"

namespace alcove::kernels {

void linear_weight_i8_neon_4x16(const LinearWeightI8& a) noexcept { multiply(a); }
void linear_weight_i8_panels_neon_4x16(const LinearF32& a) noexcept { multiply_panels(a); }

}  // namespace alcove::kernels
