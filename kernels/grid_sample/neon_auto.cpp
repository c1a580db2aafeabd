// The reference's loops, compiled for NEON.
#include "kernels/grid_sample/body.h"

namespace alcove::kernels {

void grid_sample_f32_neon_auto(const GridSampleF32& a) noexcept { sample(a); }

}  // namespace alcove::kernels
