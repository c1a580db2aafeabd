// The loops, as the compiler's vectors of 256 bits.
#include "kernels/linear_dynamic_i8/body.h"

namespace alcove::kernels {

void linear_dynamic_i8_avx2_auto(const LinearDynamicI8& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
