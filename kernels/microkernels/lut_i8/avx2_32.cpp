// AVX2 lookup: 32 elements at a time, in 16 tables of 16.
#include <immintrin.h>

#include "kernels/microkernels/lut_i8/lut_i8.h"

namespace alcove::kernels {

void lut_i8_avx2_32(const LutI8& a) noexcept {
  __m256i tables[16];
  for (int t = 0; t < 16; ++t) {
    tables[t] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a.table + 16 * t)));
  }
  size_t i = 0;
  for (; i + 32 <= a.count; i += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a.input + i));
    const __m256i index = _mm256_xor_si256(x, _mm256_set1_epi8(-128));
    __m256i y = _mm256_setzero_si256();
    for (int t = 0; t < 16; ++t) {
      // What is outside this table gets its highest bit, and a shuffle gives 0 for it.
      const __m256i within = _mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(16 * t)));
      y = _mm256_or_si256(y, _mm256_shuffle_epi8(tables[t], _mm256_adds_epu8(within, _mm256_set1_epi8(0x70))));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(a.output + i), y);
  }
  for (; i < a.count; ++i) a.output[i] = a.table[a.input[i] + 128];
}

}  // namespace alcove::kernels
