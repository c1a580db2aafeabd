// AVX2: 4 rows or pixels of 16 outputs.
#include "kernels/simd/lanes16_avx2.h"

#include "kernels/microkernels/depthwise_conv2d_i8/impl.h"

namespace alcove::kernels {

void depthwise_conv2d_i8_avx2_4x16(const DepthwiseConv2dI8& a) noexcept { convolve(a, make_tiles(a)); }

}  // namespace alcove::kernels
