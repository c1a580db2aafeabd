// reduce, compiled for NEON: the compiler makes vectors of lanes and of columns.
#include "kernels/reduce/body.h"

namespace alcove::kernels {

void reduce_f32_neon_auto(const Reduce& a) noexcept { reduce<float>(a); }

}  // namespace alcove::kernels
