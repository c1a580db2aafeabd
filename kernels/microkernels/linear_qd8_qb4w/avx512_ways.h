// What the ways of linear_qd8_qb4w in 512 bits share.  Internal linkage, so that no copy is chosen for all.
#pragma once

#include <immintrin.h>

#include "kernels/simd/lanes16_avx512.h"
#include "kernels/microkernels/linear_qd8_qb4w/tiles.h"
#include "kernels/simd/vector_avx512.h"

namespace alcove::kernels {

namespace {

struct Avx512Words {
  using V = Avx512;
  using Words = __m512i;
  static Words fill(int32_t value) noexcept { return _mm512_set1_epi32(value); }
  static void unpack(const int8_t* words, Words (&w)[8]) noexcept {
    const Words low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Words both = _mm512_loadu_si512(words + 64 * i);
      w[2 * i] = _mm512_and_si512(both, low);
      w[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi32(both, 4), low);
    }
  }
  static Words four(const int8_t* q) noexcept {
    int32_t bits;
    std::memcpy(&bits, q, 4);
    return _mm512_set1_epi32(bits);
  }
  static __m512 to_floats(Words acc) noexcept { return _mm512_cvtepi32_ps(acc); }
  static __m512 load_scales(const int8_t* p) noexcept {
    const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
  }
};

}  // namespace

}  // namespace alcove::kernels
