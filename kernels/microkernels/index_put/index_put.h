// Rows by number, written: with input and output as [outer][bound][row] and source as [outer][indices.count][row],
//   output = input, then output[o][indices[i]] op= source[o][i], i in order.
// Modes, `includes_self`, wrapping and NaNs are those of kernels/microkernels/scatter/scatter.h.
//
// Returns the position of the first index outside [0, bound) (or [-bound, bound) where negatives wrap), having written
// nothing; indices.count if all are good.
//
// The caller has checked: sizes are at least 1, bound < 2^63; output is exactly the input or overlaps nothing.
// Everything is aligned to its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/indices.h"
#include "kernels/microkernels/scatter/scatter.h"

namespace alcove::kernels {

struct IndexPut {
  const void* input;
  Indices indices;
  const void* source;
  void* output;
  size_t element_bytes;  // used by set alone
  size_t outer;
  size_t bound;
  size_t row;        // elements
  ScatterMode mode;  // index_put_any: set, the others: anything else
  bool includes_self;
  bool wraps;
};

using IndexPutKernel = size_t(const IndexPut&) noexcept;

IndexPutKernel index_put_any_scalar, index_put_f32_scalar, index_put_i32_scalar, index_put_i64_scalar;

}  // namespace alcove::kernels
