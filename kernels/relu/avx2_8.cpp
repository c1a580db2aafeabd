// AVX2 relu, 8 elements at a time.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/relu/relu.h"

namespace alcove::kernels {

void relu_f32_avx2_8(const ReluF32& a) noexcept {
  const __m256 zero = _mm256_setzero_ps();
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  size_t i = 0;
  for (; i + 8 <= a.count; i += 8) {
    const __m256 x = _mm256_loadu_ps(a.input + i);
    const __m256 positive = _mm256_and_ps(x, _mm256_cmp_ps(x, zero, _CMP_GT_OQ));
    _mm256_storeu_ps(a.output + i, _mm256_blendv_ps(positive, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  }
  for (; i < a.count; ++i) {
    const float x = a.input[i];
    a.output[i] = x > 0.0f ? x : (x == x ? 0.0f : canonical(x));
  }
}

}  // namespace alcove::kernels
