// AVX2 embedding bags: blocks of columns stay in registers while all ids pass by (f32: 32 columns, i8: 64).
// i8 sums run in int16 for 256 rows at a time (256 * -128 just fits), then move to int32: half the work of widening each.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/microkernels/text_embedding_bag/column.h"
#include "kernels/microkernels/text_embedding_bag/text_embedding_bag.h"
#include "kernels/long_sum.h"

namespace alcove::kernels {

namespace {

constexpr size_t kRowsPerFlush = 256;

inline __m256 canonical8(__m256 v) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

template <int kVectors>
void sum_f32(const TextEmbeddingBagF32& a, size_t d, float factor) {
  __m256 acc[kVectors];
  for (int v = 0; v < kVectors; ++v) acc[v] = _mm256_setzero_ps();
  const bool is_long = a.count > kLongestChain;
  LongSums<8 * kVectors> long_sums;
  if (is_long) long_sums.clear();
  for (size_t i = 0; i < a.count;) {
    const size_t end = is_long && a.count - i > kSumBlock ? i + kSumBlock : a.count;
    for (; i < end; ++i) {
      const float* row = a.table + static_cast<size_t>(a.ids[i]) * a.dim + d;
      for (int v = 0; v < kVectors; ++v) acc[v] = _mm256_add_ps(acc[v], _mm256_loadu_ps(row + 8 * v));
    }
    if (!is_long) break;
    float sums[8 * kVectors];
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(sums + 8 * v, acc[v]);
    long_sums.add(sums);
    const float* total = i == a.count ? long_sums.total() : nullptr;
    for (int v = 0; v < kVectors; ++v) acc[v] = total == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(total + 8 * v);
  }
  for (int v = 0; v < kVectors; ++v) {
    if (a.is_mean && a.count > 0) acc[v] = _mm256_mul_ps(acc[v], _mm256_set1_ps(factor));
    _mm256_storeu_ps(a.output + d + 8 * v, canonical8(acc[v]));
  }
}

// sums[0, 16 * kVectors) += the rows' columns from d on.
template <int kVectors>
void sum_i8(const TextEmbeddingBagI8& a, size_t d, int32_t* sums) {
  for (int c = 0; c < 16 * kVectors; ++c) sums[c] = 0;
  for (size_t start = 0; start < a.count; start += kRowsPerFlush) {
    const size_t end = a.count - start < kRowsPerFlush ? a.count : start + kRowsPerFlush;
    __m256i acc[kVectors];
    for (int v = 0; v < kVectors; ++v) acc[v] = _mm256_setzero_si256();
    for (size_t i = start; i < end; ++i) {
      const int8_t* row = a.table + static_cast<size_t>(a.ids[i]) * a.dim + d;
      for (int v = 0; v < kVectors; ++v) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 16 * v));
        acc[v] = _mm256_add_epi16(acc[v], _mm256_cvtepi8_epi16(bytes));
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      auto* low = reinterpret_cast<__m256i*>(sums + 16 * v);
      auto* high = reinterpret_cast<__m256i*>(sums + 16 * v + 8);
      const __m256i wide_low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(acc[v]));
      const __m256i wide_high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(acc[v], 1));
      _mm256_storeu_si256(low, _mm256_add_epi32(_mm256_loadu_si256(low), wide_low));
      _mm256_storeu_si256(high, _mm256_add_epi32(_mm256_loadu_si256(high), wide_high));
    }
  }
}

inline float scale_sum(const TextEmbeddingBagI8& a, size_t d, int32_t sum, float factor) {
  if (a.count == 0) return 0.0f;
  float value = static_cast<float>(sum) * a.scale[d];
  if (a.is_mean) value *= factor;
  return canonical(value);
}

template <int kVectors>
void block_i8(const TextEmbeddingBagI8& a, size_t d, float factor) {
  alignas(32) int32_t sums[16 * kVectors];
  sum_i8<kVectors>(a, d, sums);
  for (int c = 0; c < 16 * kVectors; ++c) a.output[d + c] = scale_sum(a, d + c, sums[c], factor);
}

}  // namespace

void text_embedding_bag_f32_avx2_32(const TextEmbeddingBagF32& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  size_t d = 0;
  for (; d + 32 <= a.dim; d += 32) sum_f32<4>(a, d, factor);
  for (; d + 8 <= a.dim; d += 8) sum_f32<1>(a, d, factor);
  for (; d < a.dim; ++d) {
    float sum = column_sum(a, d);
    if (a.is_mean && a.count > 0) sum *= factor;
    a.output[d] = canonical(sum);
  }
}

void text_embedding_bag_i8_avx2_64(const TextEmbeddingBagI8& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  size_t d = 0;
  for (; d + 64 <= a.dim; d += 64) block_i8<4>(a, d, factor);
  for (; d + 16 <= a.dim; d += 16) block_i8<1>(a, d, factor);
  for (; d < a.dim; ++d) {
    int32_t sum = 0;
    for (size_t i = 0; i < a.count; ++i) sum += a.table[static_cast<size_t>(a.ids[i]) * a.dim + d];
    a.output[d] = scale_sum(a, d, sum, factor);
  }
}

}  // namespace alcove::kernels
