// layer_norm, compiled for AVX-512.
#include "kernels/lanes16_avx512.h"
#include "kernels/layer_norm/body.h"

namespace alcove::kernels {

void layer_norm_f32_avx512_auto(const LayerNorm& a) noexcept { layer_norm(a); }

}  // namespace alcove::kernels
