// Numbers as integers in the order of sort and topk: equal ones (-0 equals +0, any NaN any other) have one key, and NaN
// has the greatest.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/canonical.h"

namespace alcove::kernels {

[[maybe_unused]] static inline int32_t order_key(float value) noexcept {
  if (value == 0.0f) return 0;
  const auto bits = std::bit_cast<int32_t>(canonical(value));
  return bits ^ (bits >> 31 & INT32_MAX);
}
[[maybe_unused]] static inline int32_t order_key(int32_t value) noexcept { return value; }
[[maybe_unused]] static inline int32_t order_key(uint8_t value) noexcept { return value; }
[[maybe_unused]] static inline int64_t order_key(int64_t value) noexcept { return value; }

}  // namespace alcove::kernels
