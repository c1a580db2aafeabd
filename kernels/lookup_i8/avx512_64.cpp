// AVX-512 lookup: 64 elements at a time; with VBMI in 2 tables of 128, without in 16 tables of 16.
#include <immintrin.h>

#include "kernels/lookup_i8/lookup_i8.h"

// Of the functions that may use VBMI; the file's own options don't have it.
#define ALCOVE_VBMI __attribute__((target("avx512vbmi")))

namespace alcove::kernels {

namespace {

__mmask64 first(size_t count) noexcept { return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1; }

ALCOVE_VBMI void look_up_permuted(const LookupI8& a) noexcept {
  __m512i tables[4];
  for (int t = 0; t < 4; ++t) tables[t] = _mm512_loadu_si512(a.table + 64 * t);
  for (size_t i = 0; i < a.count; i += 64) {
    const __mmask64 mask = first(a.count - i);
    const __m512i x = _mm512_maskz_loadu_epi8(mask, a.input + i);  // its lowest 7 bits are an index, the highest the table
    const __m512i negative = _mm512_permutex2var_epi8(tables[0], x, tables[1]);
    const __m512i positive = _mm512_permutex2var_epi8(tables[2], x, tables[3]);
    _mm512_mask_storeu_epi8(a.output + i, mask, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), positive, negative));
  }
}

void look_up_shuffled(const LookupI8& a) noexcept {
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

}  // namespace

void lookup_i8_avx512_64(const LookupI8& a) noexcept {
  if (__builtin_cpu_supports("avx512vbmi")) {
    look_up_permuted(a);
  } else {
    look_up_shuffled(a);
  }
}

}  // namespace alcove::kernels
