// layer_norm, compiled for NEON: the compiler makes vectors of lanes and of columns.
#include "kernels/layer_norm/body.h"

namespace alcove::kernels {

void layer_norm_f32_neon_auto(const LayerNorm& a) noexcept { layer_norm(a); }

}  // namespace alcove::kernels
