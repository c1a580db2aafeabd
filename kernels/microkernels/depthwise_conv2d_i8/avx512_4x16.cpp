// AVX-512: 4 rows or pixels of 16 outputs.
#include "kernels/simd/lanes16_avx512.h"

#include "kernels/microkernels/depthwise_conv2d_i8/impl.h"

namespace alcove::kernels {

void depthwise_conv2d_i8_avx512_4x16(const DepthwiseConv2dI8& a) noexcept { convolve(a, make_tiles(a)); }

}  // namespace alcove::kernels
