// NEON embedding bags: blocks of columns stay in registers while all ids pass by (f32: 32 columns, i8: 64).
// i8 sums run in int16 for 256 rows at a time (256 * -128 just fits), then move to int32: half the work of widening each.
#include <arm_neon.h>

#include "kernels/canonical.h"
#include "kernels/microkernels/text_embedding_bag/text_embedding_bag.h"
#include "kernels/long_sum.h"
#include "kernels/simd/vector_neon.h"

namespace alcove::kernels {

namespace {

constexpr size_t kRowsPerFlush = 256;

template <int kVectors>
void sum_f32(const TextEmbeddingBagF32& a, size_t d, size_t lanes, float factor) noexcept {
  float32x4_t acc[kVectors];
  for (int v = 0; v < kVectors; ++v) acc[v] = vdupq_n_f32(0.0f);
  const bool is_long = a.count > kLongestChain;
  LongSums<4 * kVectors> long_sums;
  if (is_long) long_sums.clear();
  for (size_t i = 0; i < a.count;) {
    const size_t end = is_long && a.count - i > kSumBlock ? i + kSumBlock : a.count;
    for (; i < end; ++i) {
      const float* row = a.table + static_cast<size_t>(a.ids[i]) * a.dim + d;
      for (int v = 0; v < kVectors; ++v) acc[v] = vaddq_f32(acc[v], Neon::load(row + 4 * v, lanes));
    }
    if (!is_long) break;
    float sums[4 * kVectors];
    for (int v = 0; v < kVectors; ++v) vst1q_f32(sums + 4 * v, acc[v]);
    long_sums.add(sums);
    const float* total = i == a.count ? long_sums.total() : nullptr;
    for (int v = 0; v < kVectors; ++v) acc[v] = total == nullptr ? vdupq_n_f32(0.0f) : vld1q_f32(total + 4 * v);
  }
  for (int v = 0; v < kVectors; ++v) {
    if (a.is_mean && a.count > 0) acc[v] = vmulq_f32(acc[v], vdupq_n_f32(factor));
    Neon::store(a.output + d + 4 * v, lanes, acc[v]);
  }
}

inline float scale_sum(const TextEmbeddingBagI8& a, size_t d, int32_t sum, float factor) noexcept {
  if (a.count == 0) return 0.0f;
  float value = static_cast<float>(sum) * a.scale[d];
  if (a.is_mean) value *= factor;
  return canonical(value);
}

// Columns [d, d + 16 * kVectors).
template <int kVectors>
void block_i8(const TextEmbeddingBagI8& a, size_t d, float factor) noexcept {
  int32_t sums[16 * kVectors] = {};
  for (size_t start = 0; start < a.count; start += kRowsPerFlush) {
    const size_t end = a.count - start < kRowsPerFlush ? a.count : start + kRowsPerFlush;
    int16x8_t acc[2 * kVectors];
    for (int v = 0; v < 2 * kVectors; ++v) acc[v] = vdupq_n_s16(0);
    for (size_t i = start; i < end; ++i) {
      const int8_t* row = a.table + static_cast<size_t>(a.ids[i]) * a.dim + d;
      for (int v = 0; v < kVectors; ++v) {
        const int8x16_t bytes = vld1q_s8(row + 16 * v);
        acc[2 * v] = vaddw_s8(acc[2 * v], vget_low_s8(bytes));
        acc[2 * v + 1] = vaddw_high_s8(acc[2 * v + 1], bytes);
      }
    }
    for (int v = 0; v < 2 * kVectors; ++v) {
      int32_t* at = sums + 8 * v;
      vst1q_s32(at, vaddw_s16(vld1q_s32(at), vget_low_s16(acc[v])));
      vst1q_s32(at + 4, vaddw_high_s16(vld1q_s32(at + 4), acc[v]));
    }
  }
  for (size_t c = 0; c < 16 * kVectors; ++c) a.output[d + c] = scale_sum(a, d + c, sums[c], factor);
}

}  // namespace

void text_embedding_bag_f32_neon_32(const TextEmbeddingBagF32& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  size_t d = 0;
  for (; d + 32 <= a.dim; d += 32) sum_f32<8>(a, d, 4, factor);
  for (; d < a.dim; d += 4) sum_f32<1>(a, d, a.dim - d < 4 ? a.dim - d : 4, factor);
}

void text_embedding_bag_i8_neon_64(const TextEmbeddingBagI8& a) noexcept {
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
