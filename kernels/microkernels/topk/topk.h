// The k greatest, or least, of each row, best first, with their indices; equal values (-0 equals +0) by lower index; NaN
// (as 0x7FC00000) is greater than any number.
//
// The caller has checked: sizes are at least 1, k <= n, and the outputs overlap nothing.  A heap of the k best so far: at
// most n * log2(k) steps for each row; values that don't reach it, which are most, take one.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct Topk {
  const void* input;  // [rows][n]
  void* values;       // [rows][k]
  int64_t* indices;   // [rows][k]
  size_t rows, n, k;
  bool is_largest;
};

using TopkKernel = void(const Topk&) noexcept;

TopkKernel topk_f32_scalar, topk_i32_scalar, topk_i64_scalar;

}  // namespace alcove::kernels
