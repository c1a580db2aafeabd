// lanes16.h in vectors of 512 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

struct Lanes16 {
  using Floats = __m512;
  using Words = __m512i;

  static __mmask16 first(size_t count) noexcept {
    return static_cast<__mmask16>(count >= 16 ? 0xFFFFu : (1u << count) - 1u);
  }
  static Floats fill(float value) noexcept { return _mm512_set1_ps(value); }
  static Floats load(const void* p) noexcept { return _mm512_loadu_ps(p); }
  template <size_t kWidth, size_t kLane>
  static Floats spread(Floats x) noexcept {
    // Quarters 0 0 2 2 or 1 1 3 3 first: shuffles across quarters take longer than those within, and four lanes share one.
    if constexpr (kWidth == 8) x = _mm512_shuffle_f32x4(x, x, kLane < 4 ? 0xA0 : 0xF5);
    return _mm512_permute_ps(x, kLane % 4 * 0x55);
  }
  static Words load_words(const void* p) noexcept { return _mm512_loadu_si512(p); }
  static Words widen(const int8_t* p) noexcept {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static __m256i load_halves(const void* p) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static Floats widen_f16(const void* p) noexcept { return _mm512_cvtph_ps(load_halves(p)); }
  static Floats widen_bf16(const void* p) noexcept {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_halves(p)), 16));
  }
  static Words zero() noexcept { return _mm512_setzero_si512(); }
  static Words fill_words(int32_t value) noexcept { return _mm512_set1_epi32(value); }
  static Words pair(Words low, Words high) noexcept {
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi32(0xFFFF)), _mm512_slli_epi32(high, 16));
  }
  static Words multiply_add_pairs(Words x, Words w, Words sum) noexcept {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
  }
  static Floats fma(Floats x, Floats w, Floats sum) noexcept { return _mm512_fmadd_ps(x, w, sum); }
  template <int kByte>
  static Floats byte(Words words) noexcept {
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words, 24 - 8 * kByte), 24));
  }
  template <int kNibble>
  static Floats nibble(Words words) noexcept {
    // A permutation looks at the last four bits of an index alone.
    const Floats values = _mm512_set_ps(7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * kNibble), values);
  }
  static Floats to_floats(Words words) noexcept { return _mm512_cvtepi32_ps(words); }
  static Words add(Words a, Words b) noexcept { return _mm512_add_epi32(a, b); }
  static Words multiply(Words a, Words b) noexcept { return _mm512_mullo_epi32(a, b); }
  static Floats multiply(Floats a, Floats b) noexcept { return _mm512_mul_ps(a, b); }
  static Floats add(Floats a, Floats b) noexcept { return _mm512_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) noexcept { return _mm512_sub_ps(a, b); }
  static float sum(Floats v) noexcept {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The second operand of a minimum or maximum is the answer where one of them is NaN.
  static Floats clamp(Floats v, Floats low, Floats high) noexcept { return _mm512_min_ps(high, _mm512_max_ps(low, v)); }
  static void store(float* p, size_t count, Floats v) noexcept {
    const Floats nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
    _mm512_mask_storeu_ps(p, first(count), _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan));
  }
  static void requantize_store(int8_t* p, size_t count, Floats v, const Int8Range& range) noexcept {
    v = _mm512_max_ps(v, _mm512_set1_ps(range.low));
    v = _mm512_min_ps(v, _mm512_set1_ps(range.high));
    const Words words = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(range.zero_point));
    if (count >= 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(words));
    } else {
      _mm_mask_storeu_epi8(p, first(count), _mm512_cvtepi32_epi8(words));
    }
  }
  static Floats load_some(const float* p, size_t count) noexcept { return _mm512_maskz_loadu_ps(first(count), p); }
  static Words widen_some(const int8_t* p, size_t count) noexcept {
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(count), p));
  }
};

}  // namespace

}  // namespace alcove::kernels
