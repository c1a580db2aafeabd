// NEON winograd_conv2d: 4 channels are transformed at a time.
#include "kernels/vectors/neon.h"
#include "kernels/winograd_conv2d/body.h"

namespace alcove::kernels {

void winograd_conv2d_f32_neon_4(const WinogradConv2dF32& a) noexcept { Winograd<Neon>{a}.run(); }

}  // namespace alcove::kernels
