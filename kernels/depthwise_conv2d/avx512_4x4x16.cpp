// AVX-512 depthwise convolution: 4 x 4 pixels x 16 channels.
#include "kernels/depthwise_conv2d/body.h"
#include "kernels/vectors/avx512.h"
#include "kernels/vectors/scalar.h"

namespace alcove::kernels {

void depthwise_conv2d_f32_avx512_4x4x16(const DepthwiseConv2dF32& a) noexcept {
  if (a.multiplier == 1) {
    convolve<Avx512>(a);
  } else {
    convolve<Scalar>(a);
  }
}

}  // namespace alcove::kernels
