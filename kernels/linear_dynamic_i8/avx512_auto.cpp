// The loops, as the compiler's vectors with AVX-512.
#include "kernels/linear_dynamic_i8/body.h"

namespace alcove::kernels {

void linear_dynamic_i8_avx512_auto(const LinearDynamicI8& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
