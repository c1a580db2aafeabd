// The loops, as the compiler's vectors with AVX-512.
#include "kernels/mean_i8/body.h"

namespace alcove::kernels {

void mean_i8_avx512_auto(const MeanI8& a) noexcept { mean(a); }

}  // namespace alcove::kernels
