// The truth: the loops, one number at a time.
#include "kernels/lanes16.h"

#include "kernels/linear_weight_i4/body.h"

namespace alcove::kernels {

void linear_weight_i4_reference(const LinearWeightI4& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
