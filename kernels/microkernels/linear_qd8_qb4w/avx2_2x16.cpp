// linear_qd8_qb4w with AVX2: sums of 32 products of 7 and 4 bits, two by two, fit 16 bits.  2 rows x 1 panel.
#include <immintrin.h>

#include "kernels/simd/lanes16_avx2.h"
#include "kernels/microkernels/linear_qd8_qb4w/tiles.h"
#include "kernels/simd/vector_avx2.h"

namespace alcove::kernels {

namespace {

struct Pairs {
  using V = Avx2;
  using Words = __m256i;
  static Words fill(int32_t value) noexcept { return _mm256_set1_epi32(value); }
  static void unpack(const int8_t* words, Words (&w)[8]) noexcept {
    const Words low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Words both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 64 * i));
      w[2 * i] = _mm256_and_si256(both, low);
      w[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi32(both, 4), low);
    }
  }
  static Words four(const int8_t* q) noexcept {
    int32_t bits;
    std::memcpy(&bits, q, 4);
    return _mm256_set1_epi32(bits);
  }
  static Words dot(const Words (&w)[8], const int8_t* q, Words acc) noexcept {
    Words pairs = _mm256_maddubs_epi16(w[0], four(q));
#pragma GCC unroll 8
    for (int i = 1; i < 8; ++i) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[i], four(q + 4 * i)));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static __m256 to_floats(Words acc) noexcept { return _mm256_cvtepi32_ps(acc); }
  static __m256 load_scales(const int8_t* p) noexcept {
    const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
  }
};

}  // namespace

void linear_qd8_qb4w_avx2_2x16(const LinearQd8Qb4w& a) noexcept { multiply<Pairs, 1, 2>(a); }

}  // namespace alcove::kernels
