// layer_norm, compiled for NEON.
#include "kernels/lanes16_neon.h"
#include "kernels/layer_norm/body.h"

namespace alcove::kernels {

void layer_norm_f32_neon_auto(const LayerNorm& a) noexcept { layer_norm(a); }

}  // namespace alcove::kernels
