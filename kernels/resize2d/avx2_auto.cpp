// The reference's loops, compiled for AVX2.
#include "kernels/resize2d/body.h"

namespace alcove::kernels {

void resize2d_f32_avx2_auto(const Resize2dF32& a) noexcept { resize(a); }

}  // namespace alcove::kernels
