// 16 floats of AVX-512 as a vector.  Only files of that instruction set may include it; everything has
// internal linkage, so that no copy is chosen for all.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

struct Avx512 {
  static constexpr size_t kWidth = 16;
  static constexpr int kRegisters = 32;
  using Register = __m512;
  static __mmask16 mask(size_t lanes) noexcept { return static_cast<__mmask16>((1u << lanes) - 1u); }
  static Register fill(float v) noexcept { return _mm512_set1_ps(v); }
  static Register load(const float* p, size_t lanes) noexcept {
    return lanes == kWidth ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(mask(lanes), p);
  }
  using Mask = __mmask16;
  static Register load_masked(const float* p, Mask used) noexcept { return _mm512_maskz_loadu_ps(used, p); }
  // Lane i takes lane (first + i) / times.
  using Places = __m512i;
  static Places places(size_t first, size_t times) noexcept {
    int32_t lanes[kWidth];
    for (size_t i = 0; i < kWidth; ++i) lanes[i] = static_cast<int32_t>((first + i) / times);
    return _mm512_loadu_si512(lanes);
  }
  static Register take(Register v, Places from) noexcept { return _mm512_permutexvar_ps(from, v); }
  static void store(float* p, size_t lanes, Register v) noexcept {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
    v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    if (lanes == kWidth) {
      _mm512_storeu_ps(p, v);
    } else {
      _mm512_mask_storeu_ps(p, mask(lanes), v);
    }
  }
  // Brings the line of memory at an address, which may be of no object, into the caches.
  static void prefetch(uintptr_t at) noexcept { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0); }
  static Register add(Register x, Register y) noexcept { return _mm512_add_ps(x, y); }
  static Register multiply(Register x, Register y) noexcept { return _mm512_mul_ps(x, y); }
  static Register fma(Register x, Register w, Register y) noexcept { return _mm512_fmadd_ps(x, w, y); }
  // Of a NaN, and of two zeros, max and min answer with the second operand: y stays, as in vector_scalar.h.
  static Register clamp(Register y, Register low, Register high) noexcept {
    return _mm512_min_ps(high, _mm512_max_ps(low, y));
  }
};

// Half of one: 8 floats with the same masks and as many registers.
struct Avx512Half {
  static constexpr size_t kWidth = 8;
  static constexpr int kRegisters = 32;
  using Register = __m256;
  static __mmask8 mask(size_t lanes) noexcept { return static_cast<__mmask8>((1u << lanes) - 1u); }
  static Register fill(float v) noexcept { return _mm256_set1_ps(v); }
  static Register load(const float* p, size_t lanes) noexcept {
    return lanes == kWidth ? _mm256_loadu_ps(p) : _mm256_maskz_loadu_ps(mask(lanes), p);
  }
  static void store(float* p, size_t lanes, Register v) noexcept {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
    v = _mm256_mask_mov_ps(v, _mm256_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    if (lanes == kWidth) {
      _mm256_storeu_ps(p, v);
    } else {
      _mm256_mask_storeu_ps(p, mask(lanes), v);
    }
  }
  static void prefetch(uintptr_t at) noexcept { Avx512::prefetch(at); }
  static Register add(Register x, Register y) noexcept { return _mm256_add_ps(x, y); }
  static Register multiply(Register x, Register y) noexcept { return _mm256_mul_ps(x, y); }
  static Register fma(Register x, Register w, Register y) noexcept { return _mm256_fmadd_ps(x, w, y); }
  static Register clamp(Register y, Register low, Register high) noexcept {
    return _mm256_min_ps(high, _mm256_max_ps(low, y));
  }
};

}  // namespace

}  // namespace alcove::kernels
