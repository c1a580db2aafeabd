// group_norm, compiled for NEON: the compiler makes vectors of lanes and of columns.
#include "kernels/group_norm/body.h"

namespace alcove::kernels {

void group_norm_f32_neon_auto(const GroupNorm& a) noexcept { group_norm(a); }

}  // namespace alcove::kernels
