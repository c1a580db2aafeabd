// AVX-512 winograd_conv2d: 16 channels are transformed at a time.
#include "kernels/vectors/avx512.h"
#include "kernels/winograd_conv2d/body.h"

namespace alcove::kernels {

void winograd_conv2d_f32_avx512_16(const WinogradConv2dF32& a) noexcept { Winograd<Avx512>{a}.run(); }

}  // namespace alcove::kernels
