// NEON: 4 rows or pixels of 16 outputs.
#include "kernels/lanes16_neon.h"

#include "kernels/linear_weight_i4/body.h"

namespace alcove::kernels {

void linear_weight_i4_neon_4x16(const LinearWeightI4& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
