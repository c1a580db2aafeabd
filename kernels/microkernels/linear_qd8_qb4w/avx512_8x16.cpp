// linear_qd8_qb4w with AVX-512 and without VNNI: sums of 32 products of 7 and 4 bits, two by two, fit 16 bits.
// 8 rows x 1 panel.
#include "kernels/microkernels/linear_qd8_qb4w/avx512_ways.h"

namespace alcove::kernels {

namespace {

struct Pairs : Avx512Words {
  static Words dot(const Words (&w)[8], const int8_t* q, Words acc) noexcept {
    Words pairs = _mm512_maddubs_epi16(w[0], four(q));
#pragma GCC unroll 8
    for (int i = 1; i < 8; ++i) pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16(w[i], four(q + 4 * i)));
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};

}  // namespace

void linear_qd8_qb4w_avx512_8x16(const LinearQd8Qb4w& a) noexcept { multiply<Pairs, 1, 2, 3, 4, 5, 6, 7, 8>(a); }

}  // namespace alcove::kernels
