// Rows by number: with input as [outer][bound][row_bytes], output[o][i] = input[o][indices[i]].  Bits are kept.
//
// Returns the position of the first index outside [0, bound) (or [-bound, bound) where negatives wrap), having written
// nothing; indices.count if all are good.
//
// The caller has checked: sizes are at least 1, bound < 2^63, output overlaps nothing.  Indices are aligned, nothing else
// needs to be.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/indices.h"

namespace alcove::kernels {

struct IndexSelect {
  const uint8_t* input;
  Indices indices;
  uint8_t* output;
  size_t outer;
  size_t bound;
  size_t row_bytes;
  bool wraps;
};

using IndexSelectKernel = size_t(const IndexSelect&) noexcept;

IndexSelectKernel index_select_scalar;

}  // namespace alcove::kernels
