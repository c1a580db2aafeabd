// NEON depthwise convolution: 4 x 4 pixels x 4 channels.
#include "kernels/depthwise_conv2d/body.h"
#include "kernels/vectors/neon.h"
#include "kernels/vectors/scalar.h"

namespace alcove::kernels {

void depthwise_conv2d_f32_neon_4x4x4(const DepthwiseConv2dF32& a) noexcept {
  if (a.multiplier == 1) {
    convolve<Neon>(a);
  } else {
    convolve<Scalar>(a);
  }
}

}  // namespace alcove::kernels
