// lanes16.h in two vectors of 256 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

struct Lanes16 {
  struct Floats {
    __m256 low, high;
  };
  struct Words {
    __m256i low, high;
  };

  static Floats fill(float value) noexcept { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Floats load(const void* p) noexcept {
    const auto* floats = static_cast<const float*>(p);
    return {_mm256_loadu_ps(floats), _mm256_loadu_ps(floats + 8)};
  }
  template <size_t kWidth, size_t kLane>
  static Floats spread(const Floats& x) noexcept {
    if constexpr (kWidth == 4) return {_mm256_permute_ps(x.low, kLane * 0x55), _mm256_permute_ps(x.high, kLane * 0x55)};
    const __m256i lane = _mm256_set1_epi32(kLane);
    return {_mm256_permutevar8x32_ps(x.low, lane), _mm256_permutevar8x32_ps(x.high, lane)};
  }
  static Words load_words(const void* p) noexcept {
    const auto* words = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
  }
  static Words widen(const int8_t* p) noexcept {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
  }
  static Floats widen_f16(const void* p) noexcept {
    const auto* halves = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static __m256 widen_bf16_8(const __m128i* p) noexcept {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
  }
  static Floats widen_bf16(const void* p) noexcept {
    const auto* halves = static_cast<const __m128i*>(p);
    return {widen_bf16_8(halves), widen_bf16_8(halves + 1)};
  }
  static Words zero() noexcept { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Words fill_words(int32_t value) noexcept { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
  static __m256i pair8(__m256i low, __m256i high) noexcept {
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xFFFF)), _mm256_slli_epi32(high, 16));
  }
  static Words pair(const Words& low, const Words& high) noexcept {
    return {pair8(low.low, high.low), pair8(low.high, high.high)};
  }
  static Words multiply_add_pairs(const Words& x, const Words& w, const Words& sum) noexcept {
    return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(x.low, w.low)),
            _mm256_add_epi32(sum.high, _mm256_madd_epi16(x.high, w.high))};
  }
  static Floats fma(const Floats& x, const Floats& w, const Floats& sum) noexcept {
    return {_mm256_fmadd_ps(x.low, w.low, sum.low), _mm256_fmadd_ps(x.high, w.high, sum.high)};
  }
  template <int kByte>
  static __m256 byte8(__m256i words) noexcept {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(words, 24 - 8 * kByte), 24));
  }
  template <int kByte>
  static Floats byte(const Words& words) noexcept {
    return {byte8<kByte>(words.low), byte8<kByte>(words.high)};
  }
  template <int kNibble>
  static __m256 nibble8(__m256i words) noexcept {
    const __m256i four = _mm256_and_si256(_mm256_srli_epi32(words, 4 * kNibble), _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(four, _mm256_set1_epi32(8)));
  }
  template <int kNibble>
  static Floats nibble(const Words& words) noexcept {
    return {nibble8<kNibble>(words.low), nibble8<kNibble>(words.high)};
  }
  static Floats to_floats(const Words& words) noexcept {
    return {_mm256_cvtepi32_ps(words.low), _mm256_cvtepi32_ps(words.high)};
  }
  static Words add(const Words& a, const Words& b) noexcept {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  static Words multiply(const Words& a, const Words& b) noexcept {
    return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
  }
  static Floats multiply(const Floats& a, const Floats& b) noexcept {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Floats add(const Floats& a, const Floats& b) noexcept {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Floats subtract(const Floats& a, const Floats& b) noexcept {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static float sum(const Floats& v) noexcept {
    const __m256 eight = _mm256_add_ps(v.low, v.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The second operand of a minimum or maximum is the answer where one of them is NaN.
  static Floats clamp(const Floats& v, const Floats& low, const Floats& high) noexcept {
    return {_mm256_min_ps(high.low, _mm256_max_ps(low.low, v.low)),
            _mm256_min_ps(high.high, _mm256_max_ps(low.high, v.high))};
  }
  static __m256 canonical8(__m256 v) noexcept {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
    return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  static void store(float* p, size_t count, const Floats& v) noexcept {
    if (count >= 16) {
      _mm256_storeu_ps(p, canonical8(v.low));
      _mm256_storeu_ps(p + 8, canonical8(v.high));
      return;
    }
    float lanes[16];
    _mm256_storeu_ps(lanes, canonical8(v.low));
    _mm256_storeu_ps(lanes + 8, canonical8(v.high));
    for (size_t c = 0; c < count; ++c) p[c] = lanes[c];
  }
  static __m256i requantize8(__m256 v, const Int8Range& range) noexcept {
    v = _mm256_max_ps(v, _mm256_set1_ps(range.low));
    v = _mm256_min_ps(v, _mm256_set1_ps(range.high));
    return _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(range.zero_point));
  }
  static void requantize_store(int8_t* p, size_t count, const Floats& v, const Int8Range& range) noexcept {
    const __m256i words = _mm256_packs_epi32(requantize8(v.low, range), requantize8(v.high, range));
    const __m256i bytes = _mm256_packs_epi16(words, words);  // lanes 0-3, 8-11 | 4-7, 12-15
    const __m128i in_order = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    if (count >= 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), in_order);
      return;
    }
    int8_t lanes[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(lanes), in_order);
    for (size_t c = 0; c < count; ++c) p[c] = lanes[c];
  }
  static Floats load_some(const float* p, size_t count) noexcept {
    if (count >= 16) return load(p);
    float lanes[16] = {};
    for (size_t c = 0; c < count; ++c) lanes[c] = p[c];
    return load(lanes);
  }
  // Seldom needed, and kept out of the loops.
  [[gnu::noinline]] static void copy_some(const int8_t* p, size_t count, int8_t (&lanes)[16]) noexcept {
    for (size_t c = 0; c < 16; ++c) lanes[c] = c < count ? p[c] : int8_t{0};
  }
  static Words widen_some(const int8_t* p, size_t count) noexcept {
    if (count >= 16) return widen(p);
    int8_t lanes[16];
    copy_some(p, count, lanes);
    return widen(lanes);
  }
};

}  // namespace

}  // namespace alcove::kernels
