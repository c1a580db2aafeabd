// The loops, one number at a time.
#include "kernels/simd/lanes16_scalar.h"

#include "kernels/microkernels/depthwise_conv2d_i8/impl.h"

namespace alcove::kernels {

void depthwise_conv2d_i8_scalar(const DepthwiseConv2dI8& a) noexcept { convolve(a, kPixelByPixel); }

}  // namespace alcove::kernels
