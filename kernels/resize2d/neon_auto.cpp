// The reference's loops, compiled for NEON.
#include "kernels/resize2d/body.h"

namespace alcove::kernels {

void resize2d_f32_neon_auto(const Resize2dF32& a) noexcept { resize(a); }

}  // namespace alcove::kernels
