// group_norm, compiled for NEON.
#include "kernels/lanes16_neon.h"

#include "kernels/group_norm/body.h"

namespace alcove::kernels {

void group_norm_f32_neon_auto(const GroupNorm& a) noexcept { group_norm(a); }

}  // namespace alcove::kernels
