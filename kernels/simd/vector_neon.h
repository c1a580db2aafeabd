// 4 floats of NEON as a vector.  Only files of that instruction set may include it; everything has
// internal linkage, so that no copy is chosen for all.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

struct Neon {
  static constexpr size_t kWidth = 4;
  static constexpr int kRegisters = 32;
  using Register = float32x4_t;
  // There are no masked loads: a mask is how many lanes are used.
  using Mask = size_t;
  static Mask mask(size_t lanes) noexcept { return lanes; }
  static Register fill(float v) noexcept { return vdupq_n_f32(v); }
  static Register load(const float* p, size_t lanes) noexcept {
    return lanes == kWidth ? vld1q_f32(p) : load_some(p, lanes);
  }
  static Register load_masked(const float* p, Mask used) noexcept { return load(p, used); }
  // Lane i takes lane (first + i) / times.
  using Places = uint8x16_t;
  static Places places(size_t first, size_t times) noexcept {
    uint8_t bytes[16];
    for (size_t i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>((first + i / 4) / times * 4 + i % 4);
    return vld1q_u8(bytes);
  }
  static Register take(Register v, Places from) noexcept {
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(v), from));
  }
  static void store(float* p, size_t lanes, Register v) noexcept {
    v = vbslq_f32(vceqq_f32(v, v), v, vreinterpretq_f32_u32(vdupq_n_u32(kCanonicalNanBits)));
    store_result(p, lanes, v);
  }
  // Of what an operation gave, or a choice between that and numbers: a NaN is canonical already (runtime/native/core/float_mode.h).
  static void store_result(float* p, size_t lanes, Register v) noexcept {
    if (lanes == kWidth) {
      vst1q_f32(p, v);
    } else {
      store_some(p, lanes, v);
    }
  }
  static Register add(Register x, Register y) noexcept { return vaddq_f32(x, y); }
  static Register multiply(Register x, Register y) noexcept { return vmulq_f32(x, y); }
  static Register fma(Register x, Register w, Register y) noexcept { return vfmaq_f32(y, x, w); }
  // A product by one lane of a register needs no copy of it in all lanes, so that many factors are loaded at a time.
  static constexpr int kFactors = 4;
  template <int kLane>
  static Register fma_lane(Register factors, Register w, Register y) noexcept {
    return vfmaq_laneq_f32(y, w, factors, kLane);
  }
  // Four registers by one instruction, which steps on: returns what is behind them.
  static const float* load_four(const float* p, Register (&w)[4]) noexcept {
    const float32x4x4_t all = vld1q_f32_x4(p);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) w[v] = all.val[v];
    return step(p, 16);
  }
  // Steps on.  The compiler would make one step of several, and each address anew.
  template <class Float>
  static Float* step(Float* p, size_t floats) noexcept {
    p += floats;
    asm("" : "+r"(p));
    return p;
  }
  // ARM's own max and min turn -0 into +0 and change a NaN; comparing and choosing is what vector_scalar.h does.
  static Register clamp(Register y, Register low, Register high) noexcept {
    y = vbslq_f32(vcltq_f32(y, low), low, y);
    return vbslq_f32(vcgtq_f32(y, high), high, y);
  }
  // The same of what an operation gave, whose NaN is canonical: a minimum of it and of what is not 0 is exact.
  static Register clamp_nonzero(Register y, Register low, Register high) noexcept {
    return vminq_f32(vbslq_f32(vcltq_f32(y, low), low, y), high);
  }
  // The same of a sum with a number that is not 0, which is never -0, between +0 and a bound above it.
  static Register clamp_sum(Register y, Register low, Register high) noexcept {
    return vminq_f32(vmaxq_f32(y, low), high);
  }

 private:
  // The last columns of a row: kept out of the loops.
  [[gnu::noinline]] static Register load_some(const float* p, size_t lanes) noexcept {
    float v[kWidth] = {};
    for (size_t i = 0; i < kWidth && i < lanes; ++i) v[i] = p[i];
    return vld1q_f32(v);
  }
  static void store_some(float* p, size_t lanes, Register y) noexcept {
    if ((lanes & 2) != 0) {
      vst1_f32(p, vget_low_f32(y));
      p += 2;
      y = vextq_f32(y, y, 2);
    }
    if ((lanes & 1) != 0) vst1q_lane_f32(p, y, 0);
  }
};

}  // namespace

}  // namespace alcove::kernels
