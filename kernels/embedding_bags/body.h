// The one body of all embedding_bags kernels; each file compiles it for its instruction set.
#pragma once

#include "kernels/canonical.h"
#include "kernels/embedding_bags/embedding_bags.h"

namespace alcove::kernels {

namespace {

size_t first_bad_offset(const EmbeddingBagsF32& a) noexcept {
  int64_t least = 0;
  auto most = int64_t{0};  // the first is 0
  for (size_t b = 0; b < a.offsets.count; ++b) {
    const int64_t offset = index_at(a.offsets, b);
    if (offset < least || offset > most) return b;
    least = offset;
    most = static_cast<int64_t>(a.ids.count);
  }
  return a.offsets.count;
}

// Combines one row into the bag's; count is the number of rows before it.
void combine_row(const EmbeddingBagsF32& a, size_t i, size_t count, const float* __restrict row, float* __restrict to) {
  if (a.mode == BagMode::max) {
    for (size_t d = 0; d < a.dim; ++d) {
      const float there = count == 0 ? row[d] : to[d];
      to[d] = row[d] > there || row[d] != row[d] ? row[d] : there;
    }
  } else if (a.weights != nullptr) {
    const float weight = a.weights[i];
    for (size_t d = 0; d < a.dim; ++d) to[d] += row[d] * weight;
  } else {
    for (size_t d = 0; d < a.dim; ++d) to[d] += row[d];
  }
}

EmbeddingBagsResult embedding_bags(const EmbeddingBagsF32& a) noexcept {
  const bool has_offsets = a.offsets.data != nullptr;
  if (has_offsets) {
    const size_t bad = first_bad_offset(a);
    if (bad < a.offsets.count) return {BagFault::offset, bad};
  }
  const size_t bad = first_bad_index(a.ids, a.rows, false);
  if (bad < a.ids.count) return {BagFault::id, bad};
  for (size_t b = 0; b < a.bags; ++b) {
    size_t start = b * a.bag_size, end = start + a.bag_size;
    if (has_offsets) {
      start = static_cast<size_t>(index_at(a.offsets, b));
      end = b + 1 < a.offsets.count ? static_cast<size_t>(index_at(a.offsets, b + 1)) : a.ids.count;
    }
    float* to = a.output + b * a.dim;
    for (size_t d = 0; d < a.dim; ++d) to[d] = 0.0f;
    size_t count = 0;
    for (size_t i = start; i < end; ++i) {
      const int64_t id = index_at(a.ids, i);
      if (id == a.padding) continue;
      combine_row(a, i, count, a.table + static_cast<size_t>(id) * a.dim, to);
      ++count;
    }
    const float factor = a.mode == BagMode::mean && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
    for (size_t d = 0; d < a.dim; ++d) to[d] = canonical(to[d] * factor);
  }
  return {BagFault::none, 0};
}

}  // namespace

}  // namespace alcove::kernels
