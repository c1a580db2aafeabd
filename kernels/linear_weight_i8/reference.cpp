// The truth: the loops, one number at a time.
#include "kernels/lanes16.h"

#include "kernels/linear_weight_i8/body.h"

namespace alcove::kernels {

void linear_weight_i8_reference(const LinearWeightI8& a) noexcept { multiply(a); }
void linear_weight_i8_panels_reference(const LinearF32& a) noexcept { multiply_panels(a); }

}  // namespace alcove::kernels
