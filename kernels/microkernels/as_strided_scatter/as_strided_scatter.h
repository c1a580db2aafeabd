// output = input, then output[offset + i0 * stride0 + .. + ik * stridek] = source[i0, .., ik], source row-major: slices,
// selections and diagonals that are written, entries of a cache.  Bits are kept; where two source elements name one
// place, the later in row-major order need not win.
//
// The caller has checked: dims are at least 1, element_bytes is 1, 2, 4 or 8, every element named lies within the
// output; output is exactly the input or overlaps nothing, source overlaps neither.  No pointer needs alignment.
// Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

struct AsStridedScatter {
  const uint8_t* input;
  size_t size_bytes;  // of input and output
  const uint8_t* source;
  uint8_t* output;
  size_t element_bytes;
  size_t rank;  // of the source
  size_t dims[kMaxMovementRank];
  int64_t offset;  // in elements
  int64_t strides[kMaxMovementRank];
};

using AsStridedScatterKernel = void(const AsStridedScatter&) noexcept;

AsStridedScatterKernel as_strided_scatter_scalar;

}  // namespace alcove::kernels
