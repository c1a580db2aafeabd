// Copies that are mostly too short for a call of memcpy to pay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace alcove::kernels {

namespace {

// `from` and `to` don't overlap.
[[maybe_unused]] inline void copy_run(void* destination, const void* source, size_t bytes) noexcept {
  auto* to = static_cast<uint8_t*>(destination);
  const auto* from = static_cast<const uint8_t*>(source);
  if (bytes > 64) {
    std::memcpy(to, from, bytes);
  } else if (bytes > 16) {  // pieces of 16, the last two may overlap
    for (size_t i = 0; i + 16 < bytes; i += 16) __builtin_memcpy(to + i, from + i, 16);
    __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {  // two halves that may overlap
    uint64_t head, tail;
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + bytes - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + bytes - 8, &tail, 8);
  } else if (bytes >= 4) {
    uint32_t head, tail;
    std::memcpy(&head, from, 4);
    std::memcpy(&tail, from + bytes - 4, 4);
    std::memcpy(to, &head, 4);
    std::memcpy(to + bytes - 4, &tail, 4);
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

}  // namespace

}  // namespace alcove::kernels
