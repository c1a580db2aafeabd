// AVX-512 lookup without VBMI: 64 elements at a time, in 16 tables of 16.
#include <immintrin.h>

#include "kernels/microkernels/lut_i8/lut_i8.h"

namespace alcove::kernels {

namespace {

__mmask64 first(size_t count) noexcept { return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1; }

}  // namespace

void lut_i8_avx512_64(const LutI8& a) noexcept {
  __m512i tables[16];
  for (int t = 0; t < 16; ++t) {
    tables[t] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a.table + 16 * t)));
  }
  for (size_t i = 0; i < a.count; i += 64) {
    const __mmask64 mask = first(a.count - i);
    const __m512i index = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, a.input + i), _mm512_set1_epi8(-128));
    __m512i y = _mm512_setzero_si512();
    for (int t = 0; t < 16; ++t) {
      // What is outside this table gets its highest bit, and a shuffle gives 0 for it.
      const __m512i within = _mm512_xor_si512(index, _mm512_set1_epi8(static_cast<char>(16 * t)));
      y = _mm512_or_si512(y, _mm512_shuffle_epi8(tables[t], _mm512_adds_epu8(within, _mm512_set1_epi8(0x70))));
    }
    _mm512_mask_storeu_epi8(a.output + i, mask, y);
  }
}

}  // namespace alcove::kernels
