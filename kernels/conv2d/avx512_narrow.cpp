// Narrow convolutions for AVX-512.
#include "kernels/conv2d/narrow_body.h"
#include "kernels/vectors/avx512.h"

namespace alcove::kernels {

void conv2d_narrow_avx512(const Conv2dNarrowRow& a) noexcept { narrow<Avx512>(a); }

}  // namespace alcove::kernels
