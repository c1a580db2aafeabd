// The loops, as the compiler's vectors with NEON.
#include "kernels/binary_i8/body.h"

namespace alcove::kernels {

void add_i8_neon_auto(const BinaryI8& a) noexcept { combine<Add>(a); }
void mul_i8_neon_auto(const BinaryI8& a) noexcept { combine<Mul>(a); }

}  // namespace alcove::kernels
