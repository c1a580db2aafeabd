// AVX-512 lookup with VBMI: 64 elements at a time, in 2 tables of 128.
#include <immintrin.h>

#include "kernels/microkernels/lut_i8/lut_i8.h"

namespace alcove::kernels {

namespace {

__mmask64 first(size_t count) noexcept { return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1; }

}  // namespace

void lut_i8_avx512_vbmi_64(const LutI8& a) noexcept {
  __m512i tables[4];
  for (int t = 0; t < 4; ++t) tables[t] = _mm512_loadu_si512(a.table + 64 * t);
  for (size_t i = 0; i < a.count; i += 64) {
    const __mmask64 mask = first(a.count - i);
    const __m512i x =
        _mm512_maskz_loadu_epi8(mask, a.input + i);  // its lowest 7 bits are an index, the highest the table
    const __m512i negative = _mm512_permutex2var_epi8(tables[0], x, tables[1]);
    const __m512i positive = _mm512_permutex2var_epi8(tables[2], x, tables[3]);
    _mm512_mask_storeu_epi8(a.output + i, mask, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), positive, negative));
  }
}

}  // namespace alcove::kernels
