// torch's embedding_bag: one row for each bag of ids, the sum, mean or maximum of the rows of a table that its ids pick.
//
// Bag b is ids[offsets[b], offsets[b + 1]), the last one up to the end or to the one offset more than bags; without
// offsets it is ids[b * bag_size, (b + 1) * bag_size).  Ids equal to `padding` count for nothing.
// Each column in the order of the ids:
//   sum   from +0 by plain adds; with weights, each value is multiplied by its id's weight and rounded first
//   mean  the sum times (1.0f / count)
//   max   a NaN wins
// An empty bag gives zeros.  A NaN comes out as 0x7FC00000.
//
// Every id and offset is checked before anything is written: ids lie in [0, rows), offsets start at 0, never fall and
// don't pass ids.count.  The result says what is wrong first, and where.
//
// The caller has checked: sizes are at least 1, rows < 2^63; offsets.count is bags or bags + 1, or without offsets
// bags * bag_size == ids.count; weights go with sum alone; output overlaps nothing.  Everything is aligned to its element.
// Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/indices.h"

namespace alcove::kernels {

enum class BagMode : uint8_t { sum, mean, max };
inline constexpr size_t kBagModes = 3;

struct EmbeddingBagOffsetsF32 {
  Indices ids;
  Indices offsets;  // data null: none
  size_t bag_size;
  size_t bags;
  const float* weights;  // [ids.count], null: none
  const float* table;    // [rows][dim]
  size_t rows;
  size_t dim;
  int64_t padding;  // -1: none
  BagMode mode;
  float* output;  // [bags][dim]
};

enum class BagFault : uint8_t { none, id, offset };

struct EmbeddingBagOffsetsResult {
  BagFault fault;
  size_t position;
};

using EmbeddingBagOffsetsF32Kernel = EmbeddingBagOffsetsResult(const EmbeddingBagOffsetsF32&) noexcept;

EmbeddingBagOffsetsF32Kernel embedding_bag_offsets_f32_scalar, embedding_bag_offsets_f32_avx2,
    embedding_bag_offsets_f32_avx512, embedding_bag_offsets_f32_neon;

}  // namespace alcove::kernels
