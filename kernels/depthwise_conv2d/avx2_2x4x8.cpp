// AVX2 depthwise convolution: 2 x 4 pixels x 8 channels.
#include "kernels/depthwise_conv2d/body.h"
#include "kernels/vectors/avx2.h"
#include "kernels/vectors/scalar.h"

namespace alcove::kernels {

void depthwise_conv2d_f32_avx2_2x4x8(const DepthwiseConv2dF32& a) noexcept {
  if (a.multiplier == 1) {
    convolve<Avx2>(a);
  } else {
    convolve<Scalar>(a);
  }
}

}  // namespace alcove::kernels
