// The loops of embedding_bag_offsets; compiled once for each instruction set.
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/microkernels/embedding_bag_offsets/embedding_bag_offsets.h"
#include "kernels/long_sum.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

size_t find_bad_offset(const EmbeddingBagOffsetsF32& a) noexcept {
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

constexpr size_t kAhead = 8;  // rows whose first bytes are fetched before they are needed

// Elements of a row that are summed at a time, in registers.
constexpr size_t kBlock = 16;
typedef float Block __attribute__((vector_size(kBlock * sizeof(float))));

// Sums elements [d, d + lanes) of the rows of a bag, in order, for kBlock lanes or fewer; returns how many rows there are.
template <typename Id, bool kIsWhole>
size_t sum_rows(const EmbeddingBagOffsetsF32& a, size_t start, size_t end, size_t d, size_t lanes, float* to) noexcept {
  const Id* ids = static_cast<const Id*>(a.ids.data);
  const float *table = a.table + d, *weights = a.weights;
  const size_t dim = a.dim;
  const int64_t padding = a.padding;
  Block sum = {};
  size_t count = 0;
  const bool is_long = end - start > kLongestChain;
  LongSums<kBlock> long_sums;
  if (is_long) long_sums.clear();
  for (size_t i = start; i < end;) {
    const size_t block_end = is_long && end - i > kSumBlock ? i + kSumBlock : end;  // ids of the padding count too
    for (; i < block_end; ++i) {
      if (i + kAhead < end) __builtin_prefetch(table + static_cast<size_t>(ids[i + kAhead]) * dim);
      if (static_cast<int64_t>(ids[i]) == padding) continue;
      const float* row = table + static_cast<size_t>(ids[i]) * dim;
      Block x = {};
      std::memcpy(&x, row, (kIsWhole ? kBlock : lanes) * sizeof(float));
      if (weights != nullptr) x *= weights[i];
      sum += x;
      ++count;
    }
    if (!is_long) break;
    const Block whole = sum;  // what has an address does not stay in a register
    long_sums.add(reinterpret_cast<const float*>(&whole));
    sum = Block{};
  }
  Block total = sum;
  if (is_long) std::memcpy(&total, long_sums.total(), sizeof total);
  std::memcpy(to, &total, (kIsWhole ? kBlock : lanes) * sizeof(float));
  return count;
}

template <typename Id>
size_t sum_bag(const EmbeddingBagOffsetsF32& a, size_t start, size_t end, float* to) noexcept {
  size_t count = 0;
  size_t d = 0;
  for (; d + kBlock <= a.dim; d += kBlock) count = sum_rows<Id, true>(a, start, end, d, kBlock, to + d);
  if (d < a.dim) count = sum_rows<Id, false>(a, start, end, d, a.dim - d, to + d);
  return count;
}

// The greatest of each element, a NaN if there is one, 0 of no rows.
void find_greatest(const EmbeddingBagOffsetsF32& a, size_t start, size_t end, float* __restrict to) noexcept {
  for (size_t d = 0; d < a.dim; ++d) to[d] = 0.0f;
  size_t count = 0;
  for (size_t i = start; i < end; ++i) {
    const int64_t id = index_at(a.ids, i);
    if (id == a.padding) continue;
    const float* __restrict row = a.table + static_cast<size_t>(id) * a.dim;
    for (size_t d = 0; d < a.dim; ++d) {
      const float there = count == 0 ? row[d] : to[d];
      to[d] = row[d] > there || row[d] != row[d] ? row[d] : there;
    }
    ++count;
  }
}

EmbeddingBagOffsetsResult embedding_bag_offsets(const EmbeddingBagOffsetsF32& a) noexcept {
  const bool has_offsets = a.offsets.data != nullptr;
  if (has_offsets) {
    const size_t bad = find_bad_offset(a);
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
    size_t count = 0;
    if (a.mode == BagMode::max) {
      find_greatest(a, start, end, to);
    } else {
      count = a.ids.is_wide ? sum_bag<int64_t>(a, start, end, to) : sum_bag<int32_t>(a, start, end, to);
    }
    const float factor = a.mode == BagMode::mean && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
    for (size_t d = 0; d < a.dim; ++d) to[d] = canonical(to[d] * factor);
  }
  return {BagFault::none, 0};
}

}  // namespace

EmbeddingBagOffsetsResult ALCOVE_PER_ISA(embedding_bag_offsets_f32)(const EmbeddingBagOffsetsF32& a) noexcept {
  return embedding_bag_offsets(a);
}

}  // namespace alcove::kernels
