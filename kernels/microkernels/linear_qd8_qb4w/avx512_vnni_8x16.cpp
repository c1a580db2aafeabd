// linear_qd8_qb4w with VNNI: weights, which have no sign, are the first factor.  8 rows x 1 panel.
#include "kernels/microkernels/linear_qd8_qb4w/avx512_ways.h"

namespace alcove::kernels {

namespace {

struct Fours : Avx512Words {
  static Words dot(const Words (&w)[8], const int8_t* q, Words acc) noexcept {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) acc = _mm512_dpbusd_epi32(acc, w[i], four(q + 4 * i));
    return acc;
  }
};

}  // namespace

void linear_qd8_qb4w_avx512_vnni_8x16(const LinearQd8Qb4w& a) noexcept { multiply<Fours, 1, 2, 3, 4, 5, 6, 7, 8>(a); }

}  // namespace alcove::kernels
