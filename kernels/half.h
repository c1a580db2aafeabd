// Floats of 16 bits, widened to float32: every one of them is a float32, so that nothing is rounded.  A NaN becomes 0x7FC00000.
//   float16   binary16 of IEEE 754: 5 bits of exponent, 10 of mantissa
//   bfloat16  the upper half of a float32
// Internal linkage, so that a copy compiled for a wide instruction set can never be chosen by the linker for all.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/canonical.h"

namespace alcove::kernels {

// `one` where `is`, else `other`; by bits, so that a loop of it becomes vectors.
[[maybe_unused]] static inline uint32_t choose_bits(bool is, uint32_t one, uint32_t other) noexcept {
  const uint32_t mask = 0u - static_cast<uint32_t>(is);
  return (one & mask) | (other & ~mask);
}

// Whatever rounding and denormal modes the host has set.
[[maybe_unused]] static inline float widen_f16(uint16_t half) noexcept {
  constexpr uint32_t kInfinity = 0x7F800000u, kMoreExponent = (127 - 15) << 23, kLeastNormal = 1 << 10;
  const uint32_t magnitude = half & 0x7FFFu, moved = (magnitude << 13) + kMoreExponent;
  // A subnormal is its mantissa times 2^-24, which is a normal float32.
  const uint32_t small = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t finite = choose_bits(magnitude < kLeastNormal, small, moved);
  const uint32_t bits = choose_bits(magnitude < 0x7C00u, finite, kInfinity) | (half & 0x8000u) << 16;
  return std::bit_cast<float>(choose_bits(magnitude > 0x7C00u, kCanonicalNanBits, bits));
}

[[maybe_unused]] static inline float widen_bf16(uint16_t half) noexcept {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  return std::bit_cast<float>(choose_bits((bits & 0x7FFFFFFFu) > 0x7F800000u, kCanonicalNanBits, bits));
}

}  // namespace alcove::kernels
