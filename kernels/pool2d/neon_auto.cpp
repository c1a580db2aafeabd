// The reference's loops, compiled for NEON.
#include "kernels/pool2d/body.h"

namespace alcove::kernels {

void pool2d_f32_neon_auto(const Pool2dF32& a) noexcept { pool(a); }

}  // namespace alcove::kernels
