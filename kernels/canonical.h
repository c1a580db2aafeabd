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

}  // namespace alcove::kernels
