// The truth about winograd_conv2d.
#include "kernels/vectors/scalar.h"
#include "kernels/winograd_conv2d/body.h"

namespace alcove::kernels {

void winograd_conv2d_f32_reference(const WinogradConv2dF32& a) noexcept { Winograd<Scalar>{a}.run(); }

}  // namespace alcove::kernels
