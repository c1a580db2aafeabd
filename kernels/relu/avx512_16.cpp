// AVX-512 relu, 16 elements at a time; the last ones go through a mask.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/relu/relu.h"

namespace alcove::kernels {

void relu_f32_avx512_16(const ReluF32& a) noexcept {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  for (size_t i = 0; i < a.count; i += 16) {
    const size_t left = a.count - i;
    const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFFu : (1u << left) - 1u);
    const __m512 x = _mm512_maskz_loadu_ps(lanes, a.input + i);
    const __m512 positive = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), x);
    const __m512 y = _mm512_mask_mov_ps(positive, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
    _mm512_mask_storeu_ps(a.output + i, lanes, y);
  }
}

}  // namespace alcove::kernels
