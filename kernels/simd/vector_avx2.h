// 8 floats of AVX2 as a vector.  Only files of that instruction set may include it; everything has
// internal linkage, so that no copy is chosen for all.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

struct Avx2 {
  static constexpr size_t kWidth = 8;
  static constexpr int kRegisters = 16;
  using Register = __m256;
  static __m256i mask(size_t lanes) noexcept {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(lanes)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Register fill(float v) noexcept { return _mm256_set1_ps(v); }
  static Register load(const float* p, size_t lanes) noexcept {
    return lanes == kWidth ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask(lanes));
  }
  using Mask = __m256i;
  static Register load_masked(const float* p, Mask used) noexcept { return _mm256_maskload_ps(p, used); }
  // Lane i takes lane (first + i) / times.
  using Places = __m256i;
  static Places places(size_t first, size_t times) noexcept {
    int32_t lanes[kWidth];
    for (size_t i = 0; i < kWidth; ++i) lanes[i] = static_cast<int32_t>((first + i) / times);
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes));
  }
  static Register take(Register v, Places from) noexcept { return _mm256_permutevar8x32_ps(v, from); }
  static void store(float* p, size_t lanes, Register v) noexcept {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
    v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    if (lanes == kWidth) {
      _mm256_storeu_ps(p, v);
    } else {
      _mm256_maskstore_ps(p, mask(lanes), v);
    }
  }
  // Brings the line of memory at an address, which may be of no object, into the caches.
  static void prefetch(uintptr_t at) noexcept { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0); }
  static Register add(Register x, Register y) noexcept { return _mm256_add_ps(x, y); }
  static Register multiply(Register x, Register y) noexcept { return _mm256_mul_ps(x, y); }
  static Register fma(Register x, Register w, Register y) noexcept { return _mm256_fmadd_ps(x, w, y); }
  // Of a NaN, and of two zeros, max and min answer with the second operand: y stays, as in vector_scalar.h.
  static Register clamp(Register y, Register low, Register high) noexcept {
    return _mm256_min_ps(high, _mm256_max_ps(low, y));
  }
};

}  // namespace

}  // namespace alcove::kernels
