// Each row in order, with the indices that its values had: ascending or descending, equal values by lower index, NaN (as
// 0x7FC00000) greatest.
//
// The caller has checked: sizes are at least 1, n < 2^32, the scratch has n * sort_bytes_per_element bytes and the alignment of a
// uint64, and no output overlaps anything.  A merge sort: n * log2(n) steps for each row.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct Sort {
  const void* input;  // [rows][n]
  void* values;       // [rows][n]
  int64_t* indices;   // [rows][n]
  void* scratch;      // n * sort_bytes_per_element bytes
  size_t rows, n;
  bool is_descending;
};

using SortKernel = void(const Sort&) noexcept;

SortKernel sort_f32_scalar, sort_i32_scalar, sort_i64_scalar;
SortKernel sort_u8_scalar;  // bool too

// Two runs of keys with indices: 8 bytes together for elements of up to 4 bytes, 16 for those of 8.
inline constexpr size_t sort_bytes_per_element(size_t element_bytes) { return element_bytes == 8 ? 32 : 16; }

}  // namespace alcove::kernels
