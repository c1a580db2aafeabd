// Narrow convolutions for NEON.
#include "kernels/conv2d/narrow_body.h"
#include "kernels/vectors/neon.h"

namespace alcove::kernels {

void conv2d_narrow_neon(const Conv2dNarrowRow& a) noexcept { narrow<Neon>(a); }

}  // namespace alcove::kernels
