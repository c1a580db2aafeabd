// The loops, as the compiler's vectors of 256 bits.
#include "kernels/mean_i8/body.h"

namespace alcove::kernels {

void mean_i8_avx2_auto(const MeanI8& a) noexcept { mean(a); }

}  // namespace alcove::kernels
