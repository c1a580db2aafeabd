// linear_qd8_qb4w for NEON with products of bytes to 32 bits.  4 rows x 1 panel: 16 sums of floats, 8 vectors of weights.
#include "kernels/microkernels/linear_qd8_qb4w/neon_ways.h"

namespace alcove::kernels {

namespace {

struct Fours : NeonWords {
  static Words dot(const Words (&w)[8], const int8_t* q, Words acc) noexcept {
    const auto bytes = [&w](int i) noexcept { return vreinterpretq_s8_s32(w[i]); };
    const int8x16_t first = vld1q_s8(q), second = vld1q_s8(q + 16);
    acc = vdotq_laneq_s32(acc, bytes(0), first, 0);
    acc = vdotq_laneq_s32(acc, bytes(1), first, 1);
    acc = vdotq_laneq_s32(acc, bytes(2), first, 2);
    acc = vdotq_laneq_s32(acc, bytes(3), first, 3);
    acc = vdotq_laneq_s32(acc, bytes(4), second, 0);
    acc = vdotq_laneq_s32(acc, bytes(5), second, 1);
    acc = vdotq_laneq_s32(acc, bytes(6), second, 2);
    return vdotq_laneq_s32(acc, bytes(7), second, 3);
  }
};

}  // namespace

void linear_qd8_qb4w_neon_dotprod_4x16(const LinearQd8Qb4w& a) noexcept { multiply<Fours, 1, 2, 3, 4>(a); }

}  // namespace alcove::kernels
