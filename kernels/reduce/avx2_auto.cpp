// reduce, compiled for AVX2: the compiler makes vectors of lanes and of columns.
#include "kernels/reduce/body.h"

namespace alcove::kernels {

void reduce_f32_avx2_auto(const Reduce& a) noexcept { reduce<float>(a); }

}  // namespace alcove::kernels
