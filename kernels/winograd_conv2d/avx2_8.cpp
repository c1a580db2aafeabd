// AVX2 winograd_conv2d: 8 channels are transformed at a time.
#include "kernels/vectors/avx2.h"
#include "kernels/winograd_conv2d/body.h"

namespace alcove::kernels {

void winograd_conv2d_f32_avx2_8(const WinogradConv2dF32& a) noexcept { Winograd<Avx2>{a}.run(); }

}  // namespace alcove::kernels
