// AVX-512 softmax: the 16 lanes of the tree are one register; the last elements go through a mask, and lanes outside it
// add +0, which changes no sum.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/long_sum.h"
#include "kernels/math/exp.h"
#include "kernels/math/f64.h"
#include "kernels/microkernels/softmax/softmax.h"

namespace alcove::kernels {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

inline __m512 exp_nonpositive(__m512 x) {
  const __m512 magic = _mm512_set1_ps(kRoundMagic);
  const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(kLog2E), magic);
  const __m512 n = _mm512_sub_ps(t, magic);
  const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2Low), _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2High), x));
  __m512 p = _mm512_set1_ps(kExpC0);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC1));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC2));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC3));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC4));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC5));
  const __m512 y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  const __m512i zero_power = _mm512_sub_epi32(_mm512_castps_si512(magic), _mm512_set1_epi32(127));
  const __m512i power = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_castps_si512(t), zero_power), 23);
  // Not less: a NaN too, which stays one.
  const __mmask16 in_range = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExpLowest), _CMP_NLT_UQ);
  return _mm512_maskz_mul_ps(in_range, y, _mm512_castsi512_ps(power));
}

// Lane j + lane j + 8, then + 4, + 2, + 1.
inline float tree(__m512 lanes) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline __mmask16 lanes_from(size_t i, size_t count) {
  return static_cast<__mmask16>(count - i >= 16 ? 0xFFFFu : (1u << (count - i)) - 1u);
}

template <bool kIsLog>
void softmax_row(const float* input, float* output, size_t count, float scale, float* sum_to) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  const __m512 factor = _mm512_set1_ps(scale);
  // Two at a time, since each step waits for the one before it.
  __m512 best = _mm512_set1_ps(kMinusInfinity), other = best;
  size_t start = 0;
  for (; start + 32 <= count; start += 32) {
    best = _mm512_max_ps(best, _mm512_mul_ps(_mm512_loadu_ps(input + start), factor));
    other = _mm512_max_ps(other, _mm512_mul_ps(_mm512_loadu_ps(input + start + 16), factor));
  }
  for (; start < count; start += 16) {
    const __mmask16 lanes = lanes_from(start, count);
    best = _mm512_mask_max_ps(best, lanes, best, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, input + start), factor));
  }
  const __m512 shift = _mm512_set1_ps(_mm512_reduce_max_ps(_mm512_max_ps(best, other)));
  __m512 sums = _mm512_setzero_ps();
  LongSums<16> long_sums;
  const bool is_long = count > kSoftmaxBlock;
  if (is_long) long_sums.clear();
  const auto end_block = [&] {
    float lanes[16];
    _mm512_storeu_ps(lanes, sums);
    long_sums.add(lanes);
    sums = _mm512_setzero_ps();
  };
  for (size_t i = 0; i < count;) {
    const size_t end = count - i < kSoftmaxBlock ? count : i + kSoftmaxBlock;
    for (; i + 16 <= end; i += 16) {
      const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(input + i), factor);
      const __m512 y = exp_nonpositive(_mm512_sub_ps(x, shift));
      if constexpr (!kIsLog) _mm512_storeu_ps(output + i, y);
      sums = _mm512_add_ps(sums, y);
    }
    if (i < end) {
      const __mmask16 lanes = lanes_from(i, count);
      const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, input + i), factor);
      const __m512 y = _mm512_maskz_mov_ps(lanes, exp_nonpositive(_mm512_sub_ps(x, shift)));
      if constexpr (!kIsLog) _mm512_mask_storeu_ps(output + i, lanes, y);
      sums = _mm512_add_ps(sums, y);
      i = end;
    }
    if (end < count) end_block();
  }

  if (is_long) {
    end_block();
    sums = _mm512_loadu_ps(long_sums.total());
  }
  const float sum = tree(sums);
  if (sum != sum) {
    for (size_t i = 0; i < count; i += 16) _mm512_mask_storeu_ps(output + i, lanes_from(i, count), nan);
    if (sum_to != nullptr) *sum_to = _mm512_cvtss_f32(nan);
    return;
  }
  if (sum_to != nullptr) {
    *sum_to = sum;
    return;
  }
  const __m512 divisor = _mm512_set1_ps(sum);
  const __m512 logarithm = _mm512_set1_ps(kIsLog ? static_cast<float>(log_f64(sum)) : 0.0f);
  for (size_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = lanes_from(i, count);
    __m512 y;
    if constexpr (kIsLog) {
      y = _mm512_sub_ps(_mm512_sub_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, input + i), factor), shift),
                        logarithm);
    } else {
      y = _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, output + i), divisor);
    }
    const __m512 canonical = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), nan);
    _mm512_mask_storeu_ps(output + i, lanes, canonical);
  }
}

}  // namespace

void softmax_f32_avx512_16(const SoftmaxF32& a) noexcept {
  auto* const softmax = a.is_log ? softmax_row<true> : softmax_row<false>;
  for (size_t row = 0; row < a.rows; ++row) {
    softmax(a.input + row * a.count, a.output + row * a.count, a.count, a.scale,
            a.sums != nullptr ? a.sums + row : nullptr);
  }
}

}  // namespace alcove::kernels
