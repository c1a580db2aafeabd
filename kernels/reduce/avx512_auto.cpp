// reduce, compiled for AVX-512: the compiler makes vectors of lanes and of columns.
#include "kernels/reduce/body.h"

namespace alcove::kernels {

void reduce_f32_avx512_auto(const Reduce& a) noexcept { reduce<float>(a); }

}  // namespace alcove::kernels
