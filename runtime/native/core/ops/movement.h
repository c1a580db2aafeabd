// What the rules of moving and indexing operators share.
#pragma once

#include "core/ops/ops.h"
#include "kernels/indices.h"

namespace alcove::ops {

// Tensor `index` of the program has this type, and is row-major and not ragged.
[[nodiscard]] inline Status check_same_dtype(const Subject& s, uint32_t index, const char* role, DType dtype) {
  return check_type(s, index, role, {.dtypes = make_set({dtype})});
}

// Input i as indices.  Precondition: its type is one of kIndices.
[[nodiscard]] inline kernels::Indices make_indices(const Call& c, uint8_t i) noexcept {
  return {c.in<uint8_t>(i), c.input(i).element_count(), c.input(i).dtype == DType::i64};
}

// The typed error of the index at `position` of input i, which should lie in [0, bound), or [-bound, bound) if it wraps.
[[nodiscard]] inline Status bad_index_at(const Call& c, uint8_t i, size_t position, uint64_t bound,
                                         bool wraps) noexcept {
  const auto limit = static_cast<int64_t>(bound);
  return c.bad_index(i, position, kernels::index_at(make_indices(c, i), position), wraps ? -limit : 0, limit);
}

}  // namespace alcove::ops
