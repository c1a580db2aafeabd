// Sum or mean of the rows of a table that a list of ids picks.
//
// f32: each column is summed in the order of the ids by plain adds, from +0.
// i8:  each column is summed exactly in int32, then float(sum) * scale[column].
// Mean: the sum times (1.0f / count).  An empty bag gives zeros.  A NaN comes out as 0x7FC00000.
//
// The caller has checked: every id is in [0, rows), count <= 2^20 (so that int32 sums of int8 cannot overflow), and the
// output overlaps no input.  No pointer needs more alignment than its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct TextEmbeddingBagF32 {
  const int32_t* ids;
  size_t count;
  const float* table;  // [rows][dim]
  size_t dim;
  bool is_mean;
  float* output;  // [dim]
};

struct TextEmbeddingBagI8 {
  const int32_t* ids;
  size_t count;
  const int8_t* table;  // [rows][dim]
  const float* scale;   // [dim]
  size_t dim;
  bool is_mean;
  float* output;  // [dim]
};

using TextEmbeddingBagF32Kernel = void(const TextEmbeddingBagF32&) noexcept;
using TextEmbeddingBagI8Kernel = void(const TextEmbeddingBagI8&) noexcept;

TextEmbeddingBagF32Kernel text_embedding_bag_f32_scalar, text_embedding_bag_f32_avx2_32,
    text_embedding_bag_f32_avx512_64, text_embedding_bag_f32_neon_32;
TextEmbeddingBagI8Kernel text_embedding_bag_i8_scalar, text_embedding_bag_i8_avx2_64, text_embedding_bag_i8_avx512_64,
    text_embedding_bag_i8_neon_64;

}  // namespace alcove::kernels
