// AVX2: 4 rows or pixels of 16 outputs.
#include "kernels/lanes16_avx2.h"

#include "kernels/linear_weight_i8/body.h"

namespace alcove::kernels {

void linear_weight_i8_avx2_4x16(const LinearWeightI8& a) noexcept { multiply(a); }
void linear_weight_i8_panels_avx2_4x16(const LinearF32& a) noexcept { multiply_panels(a); }

}  // namespace alcove::kernels
