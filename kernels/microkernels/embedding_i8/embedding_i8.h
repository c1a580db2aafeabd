// Rows of an int8 table: output[i][d] = float(table[ids[i]][d]) * scale[d], a NaN as 0x7FC00000.
// Returns the position of the first id outside [0, rows), or `count` if there is none; stops there.  The output overlaps no
// input.  No pointer needs more alignment than its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct EmbeddingI8 {
  const void* ids;  // int64 or int32
  bool are_wide;
  size_t count;
  const int8_t* table;  // [rows][dim]
  const float* scale;   // [dim]
  size_t rows, dim;
  float* output;  // [count][dim]
};

using EmbeddingI8Kernel = size_t(const EmbeddingI8&) noexcept;

EmbeddingI8Kernel embedding_i8_scalar, embedding_i8_avx2, embedding_i8_avx512, embedding_i8_neon;

}  // namespace alcove::kernels
