// Narrow convolutions for AVX2.
#include "kernels/conv2d/narrow_body.h"
#include "kernels/vectors/avx2.h"

namespace alcove::kernels {

void conv2d_narrow_avx2(const Conv2dNarrowRow& a) noexcept { narrow<Avx2>(a); }

}  // namespace alcove::kernels
