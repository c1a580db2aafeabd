// The one NaN that leaves a kernel: processors disagree on which operand's payload survives, so none does.
#pragma once

#include <bit>
#include <cstdint>

namespace alcove::kernels {

inline constexpr uint32_t kCanonicalNanBits = 0x7FC00000u;

// Internal linkage, so that a copy compiled for a wide instruction set can never be chosen by the linker for all.
[[maybe_unused]] static inline float canonical(float value) noexcept {
  return value == value ? value : std::bit_cast<float>(kCanonicalNanBits);
}

// The same of what an arithmetic operation gave, which on ARM is canonical already (runtime/native/core/float_mode.h).
[[maybe_unused]] static inline float canonical_result(float value) noexcept {
#if defined(__aarch64__)
  return value;
#else
  return canonical(value);
#endif
}

// What is below `low` or above `high` brought there; a NaN stays.  Internal linkage for the same reason.
[[maybe_unused]] static inline float clamp_value(float value, float low, float high) noexcept {
  value = value < low ? low : value;
  return value > high ? high : value;
}

}  // namespace alcove::kernels
