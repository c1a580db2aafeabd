// NEON int8 products where there are none of bytes to 32 bits: each is made in 16 bits, where it fits, and pairs of them are
// added to sums of 32.  2 rows x 1 panel: 16 accumulators.
#include "kernels/microkernels/linear_i8/neon_tiles.h"

namespace alcove::kernels {

namespace {

struct Pairs {
  // Lanes 2c and 2c + 1 of both together are halves of column c's sum.
  struct Sum {
    int32x4_t low, high;
  };
  static constexpr bool kIsPlain = false;
  static Sum zero() noexcept { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static Sum add(const Sum& sum, int8x16_t w, int8x16_t x) noexcept {
    return {vpadalq_s16(sum.low, vmull_s8(vget_low_s8(w), vget_low_s8(x))), vpadalq_s16(sum.high, vmull_high_s8(w, x))};
  }
  static int32x4_t total(const Sum& sum) noexcept { return vpaddq_s32(sum.low, sum.high); }
};

}  // namespace

void linear_i8_neon_2x16(const LinearI8& a) noexcept { multiply<Pairs, 2, 1, 2>(a); }

}  // namespace alcove::kernels
