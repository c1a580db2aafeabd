// What the ways of linear_qd8_qb4w for NEON share.  Internal linkage, so that no copy is chosen for all.
#pragma once

#include <arm_neon.h>

#include "kernels/simd/lanes16_neon.h"
#include "kernels/microkernels/linear_qd8_qb4w/tiles.h"
#include "kernels/simd/vector_neon.h"

namespace alcove::kernels {

namespace {

struct NeonWords {
  using V = Neon;
  using Words = int32x4_t;
  static Words fill(int32_t value) noexcept { return vdupq_n_s32(value); }
  static void unpack(const int8_t* words, Words (&w)[8]) noexcept {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const uint8x16_t both = vreinterpretq_u8_s8(vld1q_s8(words + 64 * i));
      w[2 * i] = vreinterpretq_s32_u8(vandq_u8(both, vdupq_n_u8(15)));
      w[2 * i + 1] = vreinterpretq_s32_u8(vshrq_n_u8(both, 4));
    }
  }
  static float32x4_t to_floats(Words acc) noexcept { return vcvtq_f32_s32(acc); }
  static float32x4_t load_scales(const int8_t* p) noexcept {
    const uint16x4_t upper = vreinterpret_u16_s8(vld1_s8(p));
    return vreinterpretq_f32_u32(vshll_n_u16(upper, 16));
  }
};

}  // namespace

}  // namespace alcove::kernels
