// Index tensors of the kernels that read or write where data says: i32 or i64, checked before anything moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace alcove::kernels {

struct Indices {
  const void* data;
  size_t count;
  bool is_wide;  // i64, otherwise i32
};

// Internal linkage: a copy compiled for a wide instruction set can never be chosen by the linker for all.
[[maybe_unused]] static inline int64_t index_at(const Indices& indices, size_t i) noexcept {
  return indices.is_wide ? static_cast<const int64_t*>(indices.data)[i] : static_cast<const int32_t*>(indices.data)[i];
}

// The place in [0, bound) that an allowed index names: -1 is the last where negatives wrap.
[[maybe_unused]] static inline size_t index_place(int64_t index, size_t bound) noexcept {
  return static_cast<size_t>(index < 0 ? index + static_cast<int64_t>(bound) : index);
}

template <typename T>
[[maybe_unused]] static size_t find_first_bad(const T* indices, size_t count, size_t bound, bool wraps) noexcept {
  const auto limit = static_cast<int64_t>(bound);
  const int64_t least = wraps ? -limit : 0;
  constexpr size_t kBlock = 256;  // one branch for many indices
  for (size_t i = 0; i < count; i += kBlock) {
    const size_t end = count - i < kBlock ? count : i + kBlock;
    bool is_bad = false;
    for (size_t j = i; j < end; ++j) is_bad |= indices[j] < least || indices[j] >= limit;
    if (!is_bad) continue;
    for (size_t j = i; j < end; ++j) {
      if (indices[j] < least || indices[j] >= limit) return j;
    }
  }
  return count;
}

// The position of the first index outside [0, bound), or outside [-bound, bound) where negatives wrap; `count` if none.
// Precondition: bound < 2^63.
[[maybe_unused]] static size_t first_bad_index(const Indices& indices, size_t bound, bool wraps) noexcept {
  return indices.is_wide ? find_first_bad(static_cast<const int64_t*>(indices.data), indices.count, bound, wraps)
                         : find_first_bad(static_cast<const int32_t*>(indices.data), indices.count, bound, wraps);
}

}  // namespace alcove::kernels
