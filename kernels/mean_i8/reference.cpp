// The truth: the loops as they stand.
#include "kernels/mean_i8/body.h"

namespace alcove::kernels {

void mean_i8_reference(const MeanI8& a) noexcept { mean(a); }

}  // namespace alcove::kernels
