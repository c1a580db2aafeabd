// The truth: the loops, one number at a time.
#include "kernels/lanes16.h"

#include "kernels/depthwise_conv2d_i8/body.h"

namespace alcove::kernels {

void depthwise_conv2d_i8_reference(const DepthwiseConv2dI8& a) noexcept { convolve(a, kPixelByPixel); }

}  // namespace alcove::kernels
