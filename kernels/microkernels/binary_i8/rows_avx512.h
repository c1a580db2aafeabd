// A matrix times a row, as gates of channels are, 64 columns at a time with AVX-512.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/requantize_avx512.h"

namespace alcove::kernels {

namespace {

// In each quarter, bytes 4 * i to 4 * i + 3 become four int32s of 256 times their value.
inline __m512i shift_words(__m512i bytes, int i) noexcept {
  const __m512i first = _mm512_set4_epi32(static_cast<int>(0x80800380), static_cast<int>(0x80800280),
                                          static_cast<int>(0x80800180), static_cast<int>(0x80800080));
  return _mm512_shuffle_epi8(bytes, _mm512_add_epi8(first, _mm512_set1_epi32(i * 0x400)));
}

inline __mmask64 first(size_t count) noexcept { return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1; }

// The output is walked in columns of 64: of 256 * (a - za) * (b - zb), what a row has part in is worked out once.
void multiply_rows(const int8_t* matrix, int32_t matrix_zero, const int8_t* row, int32_t row_zero, int8_t* output,
                   size_t count, size_t columns, float ratio, const Requantize64& requantize) noexcept {
  const __m512 scale = _mm512_set1_ps(ratio / 256.0f);
  for (size_t column = 0; column < columns; column += 64) {
    const __mmask64 inside = first(columns - column);
    const __m512i bytes = _mm512_maskz_loadu_epi8(inside, row + column);
    __m512i factors[4], terms[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i words = _mm512_srai_epi32(_mm512_slli_epi32(shift_words(bytes, i), 16), 24);
      factors[i] = _mm512_sub_epi32(words, _mm512_set1_epi32(row_zero));
      terms[i] = _mm512_mullo_epi32(factors[i], _mm512_set1_epi32(-256 * matrix_zero));
    }
    for (size_t at = column; at < count; at += columns) {
      const __mmask64 mask = inside & first(count - at);
      const __m512i x = _mm512_maskz_loadu_epi8(mask, matrix + at);
      __m512i y[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        // The upper halves of x are 0.
        const __m512i product = _mm512_madd_epi16(shift_words(x, i), factors[i]);
        y[i] = requantize.words(_mm512_add_epi32(product, terms[i]), scale);
      }
      _mm512_mask_storeu_epi8(output + at, mask, requantize.bytes(y[0], y[1], y[2], y[3]));
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
