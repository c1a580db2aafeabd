// AVX2 softmax: the 16 lanes of the tree are two registers; the last elements pass through a padded block of -inf, whose
// exponential is +0 and so changes no sum.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/long_sum.h"
#include "kernels/math/exp.h"
#include "kernels/math/f64.h"
#include "kernels/microkernels/softmax/softmax.h"

namespace alcove::kernels {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

inline __m256 exp_nonpositive(__m256 x) {
  const __m256 magic = _mm256_set1_ps(kRoundMagic);
  const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(kLog2E), magic);
  const __m256 n = _mm256_sub_ps(t, magic);
  const __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2Low), _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2High), x));
  __m256 p = _mm256_set1_ps(kExpC0);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC1));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC4));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC5));
  const __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(magic));
  const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23);
  const __m256 value = _mm256_mul_ps(y, _mm256_castsi256_ps(power));
  const __m256 in_range = _mm256_and_ps(value, _mm256_cmp_ps(x, _mm256_set1_ps(kExpLowest), _CMP_GE_OQ));
  return _mm256_blendv_ps(in_range, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

inline __m256 canonical8(__m256 v) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

// Lane j + lane j + 8, then + 4, + 2, + 1.
inline float tree(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <bool kIsLog>
void softmax_row(const float* input, float* output, size_t count, float scale, float* sum_to) {
  const __m256 factor = _mm256_set1_ps(scale);
  float greatest = kMinusInfinity;
  bool has_nan = false;
  size_t i = 0;
  if (count >= 8) {
    __m256 best = _mm256_set1_ps(kMinusInfinity);
    __m256 unordered = _mm256_setzero_ps();
    for (; i + 8 <= count; i += 8) {
      const __m256 x = _mm256_mul_ps(_mm256_loadu_ps(input + i), factor);
      best = _mm256_max_ps(best, x);
      unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    }
    has_nan = _mm256_movemask_ps(unordered) != 0;
    alignas(32) float lanes[8];
    _mm256_store_ps(lanes, best);
    for (float lane : lanes) greatest = lane > greatest ? lane : greatest;
  }
  for (; i < count; ++i) {
    const float x = input[i] * scale;
    greatest = x > greatest ? x : greatest;
    has_nan = has_nan || x != x;
  }
  if (has_nan) {
    for (i = 0; i < count; ++i) output[i] = canonical(__builtin_nanf(""));
    if (sum_to != nullptr) *sum_to = canonical(__builtin_nanf(""));
    return;
  }

  const __m256 shift = _mm256_set1_ps(greatest);
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  LongSums<16> sums;
  const bool is_long = count > kSoftmaxBlock;
  if (is_long) sums.clear();
  const auto end_block = [&] {
    float lanes[16];
    _mm256_storeu_ps(lanes, low);
    _mm256_storeu_ps(lanes + 8, high);
    sums.add(lanes);
    low = high = _mm256_setzero_ps();
  };
  for (i = 0; i + 16 <= count;) {
    const size_t end = count - i < kSoftmaxBlock ? count : i + kSoftmaxBlock;
    for (; i + 16 <= end; i += 16) {
      const __m256 a = exp_nonpositive(_mm256_sub_ps(_mm256_mul_ps(_mm256_loadu_ps(input + i), factor), shift));
      const __m256 b = exp_nonpositive(_mm256_sub_ps(_mm256_mul_ps(_mm256_loadu_ps(input + i + 8), factor), shift));
      if constexpr (!kIsLog) {
        _mm256_storeu_ps(output + i, a);
        _mm256_storeu_ps(output + i + 8, b);
      }
      low = _mm256_add_ps(low, a);
      high = _mm256_add_ps(high, b);
    }
    if (end < count) end_block();
  }
  if (i < count) {
    alignas(32) float block[16];
    for (size_t lane = 0; lane < 16; ++lane)
      block[lane] = i + lane < count ? input[i + lane] * scale - greatest : kMinusInfinity;
    const __m256 a = exp_nonpositive(_mm256_load_ps(block));
    const __m256 b = exp_nonpositive(_mm256_load_ps(block + 8));
    low = _mm256_add_ps(low, a);
    high = _mm256_add_ps(high, b);
    if constexpr (!kIsLog) {
      _mm256_store_ps(block, a);
      _mm256_store_ps(block + 8, b);
      for (size_t lane = 0; i + lane < count; ++lane) output[i + lane] = block[lane];
    }
  }

  if (is_long) {
    end_block();
    const float* total = sums.total();
    low = _mm256_loadu_ps(total);
    high = _mm256_loadu_ps(total + 8);
  }
  const float sum = tree(low, high);
  if (sum_to != nullptr) {
    *sum_to = sum;
    return;
  }
  if constexpr (kIsLog) {
    const float log_sum = static_cast<float>(log_f64(sum));
    const __m256 logarithm = _mm256_set1_ps(log_sum);
    for (i = 0; i + 8 <= count; i += 8) {
      const __m256 shifted = _mm256_sub_ps(_mm256_mul_ps(_mm256_loadu_ps(input + i), factor), shift);
      _mm256_storeu_ps(output + i, canonical8(_mm256_sub_ps(shifted, logarithm)));
    }
    for (; i < count; ++i) output[i] = canonical((input[i] * scale - greatest) - log_sum);
    return;
  }
  const __m256 divisor = _mm256_set1_ps(sum);
  for (i = 0; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(output + i, canonical8(_mm256_div_ps(_mm256_loadu_ps(output + i), divisor)));
  }
  for (; i < count; ++i) output[i] = canonical(output[i] / sum);
}

}  // namespace

void softmax_f32_avx2_16(const SoftmaxF32& a) noexcept {
  auto* const softmax = a.is_log ? softmax_row<true> : softmax_row<false>;
  for (size_t row = 0; row < a.rows; ++row) {
    softmax(a.input + row * a.count, a.output + row * a.count, a.count, a.scale,
            a.sums != nullptr ? a.sums + row : nullptr);
  }
}

}  // namespace alcove::kernels
