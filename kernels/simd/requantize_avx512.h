// The rule of requantize.h for 64 outputs at a time.  Internal linkage, so that no copy is chosen for other instruction sets.
#pragma once

#include <immintrin.h>

#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

// Bounds are whole numbers, so it is the same to clamp before and after rounding: what is too high is cut off in float32,
// where no conversion can overflow; what is too low, and a NaN, becomes the lowest integer, which saturation and `low` lift.
struct Requantize64 {
  __m512 high;
  __m512i zero_point, low;

  explicit Requantize64(const Int8Range& range) noexcept
      : high(_mm512_set1_ps(range.high)),
        zero_point(_mm512_set1_epi16(static_cast<int16_t>(range.zero_point))),
        low(_mm512_set1_epi8(static_cast<int8_t>(static_cast<int32_t>(range.low) + range.zero_point))) {}

  [[nodiscard]] __m512i words(__m512i sums, __m512 scales) const noexcept {
    return _mm512_cvtps_epi32(_mm512_min_ps(high, _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scales)));
  }

  // Four bytes of each argument side by side: quarter i of the result has quarters i of a, b, c and d.
  [[nodiscard]] __m512i bytes(__m512i a, __m512i b, __m512i c, __m512i d) const noexcept {
    const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero_point);
    const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero_point);
    return _mm512_max_epi8(_mm512_packs_epi16(ab, cd), low);
  }

  // The 16 bytes of a, then those of b, c and d.
  [[nodiscard]] __m512i rows(__m512i a, __m512i b, __m512i c, __m512i d) const noexcept {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_permutexvar_epi32(order, bytes(a, b, c, d));
  }
};

inline void store_row(int8_t* p, __m128i row, size_t lanes) noexcept {
  if (lanes >= 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), row);
  } else {
    _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << lanes) - 1u), row);
  }
}

}  // namespace

}  // namespace alcove::kernels
