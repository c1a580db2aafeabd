// The loops, as the compiler's vectors with NEON.
#include "kernels/pool2d_i8/body.h"

namespace alcove::kernels {

void max_pool2d_i8_neon_auto(const MaxPool2dI8& a) noexcept { max_pool(a); }

}  // namespace alcove::kernels
