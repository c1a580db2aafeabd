// linear_qd8_qb4w for NEON where there are no products of bytes to 32 bits: sums of eight products fit 16.  2 rows x 1 panel.
#include "kernels/microkernels/linear_qd8_qb4w/neon_ways.h"

namespace alcove::kernels {

namespace {

struct Eights : NeonWords {
  static Words dot(const Words (&w)[8], const int8_t* q, Words acc) noexcept {
    int16x8_t low = vdupq_n_s16(0), high = low;  // outputs 0 and 1, outputs 2 and 3
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      int32_t bits;
      std::memcpy(&bits, q + 4 * i, 4);
      const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(bits)), four = vreinterpretq_s8_s32(w[i]);
      low = vmlal_s8(low, vget_low_s8(four), vget_low_s8(x));
      high = vmlal_high_s8(high, four, x);
    }
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
  }
};

}  // namespace

void linear_qd8_qb4w_neon_2x16(const LinearQd8Qb4w& a) noexcept { multiply<Eights, 1, 2>(a); }

}  // namespace alcove::kernels
