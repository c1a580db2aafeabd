// torch.gather: output[i0, .., ik] = input[i0, .., indices[i0, .., ik], .., ik], the index standing at `axis`.
// Bits are kept.
//
// Returns the position (row-major in indices) of the first index outside [0, input_dims[axis]), having written nothing;
// indices.count if all are good.
//
// The caller has checked: 1 <= rank <= 8; dims are at least 1; indices.count is the product of dims;
// dims[d] <= input_dims[d] for d != axis; element_bytes is 1, 2, 4 or 8; output overlaps nothing.  Indices are aligned,
// nothing else needs to be.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/indices.h"
#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

struct Gather {
  const uint8_t* input;
  Indices indices;
  uint8_t* output;
  size_t element_bytes;
  size_t rank;
  size_t axis;
  size_t dims[kMaxMovementRank];  // of indices and output
  size_t input_dims[kMaxMovementRank];
};

using GatherKernel = size_t(const Gather&) noexcept;

GatherKernel gather_scalar;

}  // namespace alcove::kernels
