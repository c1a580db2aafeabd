// layer_norm, compiled for AVX2.
#include "kernels/lanes16_avx2.h"
#include "kernels/layer_norm/body.h"

namespace alcove::kernels {

void layer_norm_f32_avx2_auto(const LayerNorm& a) noexcept { layer_norm(a); }

}  // namespace alcove::kernels
