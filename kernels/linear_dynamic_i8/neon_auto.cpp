// The loops, as the compiler's vectors with NEON.
#include "kernels/linear_dynamic_i8/body.h"

namespace alcove::kernels {

void linear_dynamic_i8_neon_auto(const LinearDynamicI8& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
