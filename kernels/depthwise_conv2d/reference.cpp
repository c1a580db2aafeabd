// The truth about depthwise convolution: one channel after the other.
#include "kernels/depthwise_conv2d/body.h"
#include "kernels/vectors/scalar.h"

namespace alcove::kernels {

void depthwise_conv2d_f32_reference(const DepthwiseConv2dF32& a) noexcept { convolve<Scalar>(a); }

}  // namespace alcove::kernels
