// Narrow convolutions for one pixel at a time.
#include "kernels/conv2d/narrow_body.h"
#include "kernels/vectors/scalar.h"

namespace alcove::kernels {

void conv2d_narrow_reference(const Conv2dNarrowRow& a) noexcept { narrow<Scalar>(a); }

}  // namespace alcove::kernels
