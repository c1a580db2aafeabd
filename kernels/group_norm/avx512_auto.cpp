// group_norm, compiled for AVX-512.
#include "kernels/lanes16_avx512.h"

#include "kernels/group_norm/body.h"

namespace alcove::kernels {

void group_norm_f32_avx512_auto(const GroupNorm& a) noexcept { group_norm(a); }

}  // namespace alcove::kernels
