// Products of four bytes each to sums of 32 bits, for neon_tiles.h; the including file is compiled with those instructions.
#pragma once

#include "kernels/microkernels/linear_i8/neon_tiles.h"

namespace alcove::kernels {

namespace {

struct Fours {
  using Sum = int32x4_t;
  static constexpr bool kIsPlain = true;  // a sum is four of 32 bits
  static Sum zero() noexcept { return vdupq_n_s32(0); }
  static Sum add(Sum sum, int8x16_t w, int8x16_t x) noexcept { return vdotq_s32(sum, w, x); }
  // One load has so many groups of four, each of which multiplies whole registers.
  static constexpr int kGroups = 4;
  template <int kGroup>
  static Sum add_lane(Sum sum, int8x16_t w, int8x16_t x) noexcept {
    return vdotq_laneq_s32(sum, w, x, kGroup);
  }
  static int32x4_t total(Sum sum) noexcept { return sum; }
};

}  // namespace

}  // namespace alcove::kernels
