// AVX-512 depthwise convolution: 4 pixels x 16 channels.
#include <immintrin.h>

#include "kernels/depthwise_conv2d/body.h"

namespace alcove::kernels {

namespace {

struct Avx512 {
  static constexpr size_t kWidth = 16;
  using Register = __m512;
  static __mmask16 mask(size_t lanes) noexcept { return static_cast<__mmask16>((1u << lanes) - 1u); }
  static Register zero() noexcept { return _mm512_setzero_ps(); }
  static Register fill(float v) noexcept { return _mm512_set1_ps(v); }
  static Register load(const float* p, size_t lanes) noexcept {
    return lanes == kWidth ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(mask(lanes), p);
  }
  static void store(float* p, size_t lanes, Register v) noexcept {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
    v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    _mm512_mask_storeu_ps(p, mask(lanes), v);
  }
  static Register fma(Register x, Register w, Register y) noexcept { return _mm512_fmadd_ps(x, w, y); }
  // Of a NaN, and of two zeros, max and min answer with the second operand: y stays, as the reference has it.
  static Register clamp(Register y, Register low, Register high) noexcept {
    return _mm512_min_ps(high, _mm512_max_ps(low, y));
  }
};

}  // namespace

void depthwise_conv2d_f32_avx512_4x16(const DepthwiseConv2dF32& a) noexcept {
  if (a.multiplier == 1) {
    convolve<Avx512>(a);
  } else {
    convolve<Scalar>(a);
  }
}

}  // namespace alcove::kernels
