// layer_norm, compiled for AVX2: the compiler makes vectors of lanes and of columns.
#include "kernels/layer_norm/body.h"

namespace alcove::kernels {

void layer_norm_f32_avx2_auto(const LayerNorm& a) noexcept { layer_norm(a); }

}  // namespace alcove::kernels
