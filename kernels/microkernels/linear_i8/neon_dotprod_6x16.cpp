// NEON int8 products with sums of four, signed by signed: nothing to shift and to take off again.  6 rows x 1 panel: 24
// accumulators; a single row x 4 panels.
#include "kernels/microkernels/linear_i8/neon_tiles.h"

namespace alcove::kernels {

namespace {

struct Fours {
  using Sum = int32x4_t;
  static Sum zero() noexcept { return vdupq_n_s32(0); }
  static Sum add(Sum sum, int8x16_t w, int8x16_t x) noexcept { return vdotq_s32(sum, w, x); }
  static int32x4_t total(Sum sum) noexcept { return sum; }
};

}  // namespace

void linear_i8_neon_dotprod_6x16(const LinearI8& a) noexcept { multiply<Fours, 4, 1, 2, 3, 4, 5, 6>(a); }

}  // namespace alcove::kernels
