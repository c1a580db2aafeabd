// NEON int8 products with sums of four, signed by signed: nothing to shift and to take off again.  5 rows x 1 panel: 20
// accumulators, four groups of each row and the weights of one group; a single row x 4 panels.
#include "kernels/microkernels/linear_i8/neon_fours.h"

namespace alcove::kernels {

void linear_i8_neon_dotprod_5x16(const LinearI8& a) noexcept { multiply<Fours, 4, 1, 2, 3, 4, 5>(a); }

}  // namespace alcove::kernels
