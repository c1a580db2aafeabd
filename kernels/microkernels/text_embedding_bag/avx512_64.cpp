// AVX-512 embedding bags: 64 columns stay in registers while all ids pass by; the last columns go through masks.
// i8 sums run in int16 for 256 rows at a time (256 * -128 just fits), then move to int32: half the work of widening each.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/microkernels/text_embedding_bag/text_embedding_bag.h"
#include "kernels/long_sum.h"

namespace alcove::kernels {

namespace {

constexpr size_t kRowsPerFlush = 256;

inline __m512 canonical16(__m512 v) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
}

inline __mmask16 mask16(size_t count) { return static_cast<__mmask16>(count >= 16 ? 0xFFFFu : (1u << count) - 1u); }

template <int kVectors>
void sum_f32(const TextEmbeddingBagF32& a, size_t d, size_t columns, float factor) {
  __m512 acc[kVectors];
  __mmask16 mask[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    acc[v] = _mm512_setzero_ps();
    mask[v] = mask16(columns - 16 * v);
  }
  const bool is_long = a.count > kLongestChain;
  LongSums<16 * kVectors> long_sums;
  if (is_long) long_sums.clear();
  for (size_t i = 0; i < a.count;) {
    const size_t end = is_long && a.count - i > kSumBlock ? i + kSumBlock : a.count;
    for (; i < end; ++i) {
      const float* row = a.table + static_cast<size_t>(a.ids[i]) * a.dim + d;
      for (int v = 0; v < kVectors; ++v) acc[v] = _mm512_add_ps(acc[v], _mm512_maskz_loadu_ps(mask[v], row + 16 * v));
    }
    if (!is_long) break;
    float sums[16 * kVectors];
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(sums + 16 * v, acc[v]);
    long_sums.add(sums);
    const float* total = i == a.count ? long_sums.total() : nullptr;
    for (int v = 0; v < kVectors; ++v)
      acc[v] = total == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(total + 16 * v);
  }
  for (int v = 0; v < kVectors; ++v) {
    if (a.is_mean && a.count > 0) acc[v] = _mm512_mul_ps(acc[v], _mm512_set1_ps(factor));
    _mm512_mask_storeu_ps(a.output + d + 16 * v, mask[v], canonical16(acc[v]));
  }
}

// One block of up to 64 columns.
void block_i8(const TextEmbeddingBagI8& a, size_t d, size_t columns, float factor) {
  const __mmask64 mask = columns >= 64 ? ~0ull : (1ull << columns) - 1ull;
  __m512i sums[4];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (size_t start = 0; start < a.count; start += kRowsPerFlush) {
    const size_t end = a.count - start < kRowsPerFlush ? a.count : start + kRowsPerFlush;
    __m512i low = _mm512_setzero_si512();
    __m512i high = _mm512_setzero_si512();
    for (size_t i = start; i < end; ++i) {
      const int8_t* row = a.table + static_cast<size_t>(a.ids[i]) * a.dim + d;
      const __m512i bytes = _mm512_maskz_loadu_epi8(mask, row);
      low = _mm512_add_epi16(low, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(bytes)));
      high = _mm512_add_epi16(high, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(bytes, 1)));
    }
    sums[0] = _mm512_add_epi32(sums[0], _mm512_cvtepi16_epi32(_mm512_castsi512_si256(low)));
    sums[1] = _mm512_add_epi32(sums[1], _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(low, 1)));
    sums[2] = _mm512_add_epi32(sums[2], _mm512_cvtepi16_epi32(_mm512_castsi512_si256(high)));
    sums[3] = _mm512_add_epi32(sums[3], _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(high, 1)));
  }
  for (size_t v = 0; v < 4 && 16 * v < columns; ++v) {
    const __mmask16 lanes = mask16(columns - 16 * v);
    __m512 value = _mm512_setzero_ps();
    if (a.count > 0) {
      value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), _mm512_maskz_loadu_ps(lanes, a.scale + d + 16 * v));
      if (a.is_mean) value = _mm512_mul_ps(value, _mm512_set1_ps(factor));
    }
    _mm512_mask_storeu_ps(a.output + d + 16 * v, lanes, canonical16(value));
  }
}

}  // namespace

void text_embedding_bag_f32_avx512_64(const TextEmbeddingBagF32& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  size_t d = 0;
  for (; d + 64 <= a.dim; d += 64) sum_f32<4>(a, d, 64, factor);
  for (; d < a.dim; d += 16) sum_f32<1>(a, d, a.dim - d, factor);
}

void text_embedding_bag_i8_avx512_64(const TextEmbeddingBagI8& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  for (size_t d = 0; d < a.dim; d += 64) block_i8(a, d, a.dim - d, factor);
}

}  // namespace alcove::kernels
