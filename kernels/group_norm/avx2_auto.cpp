// group_norm, compiled for AVX2.
#include "kernels/lanes16_avx2.h"

#include "kernels/group_norm/body.h"

namespace alcove::kernels {

void group_norm_f32_avx2_auto(const GroupNorm& a) noexcept { group_norm(a); }

}  // namespace alcove::kernels
