// Finds the element of a row-major tensor that each index of a gather or a scatter names.
#pragma once

#include "kernels/indices.h"
#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

// Calls visit(position in indices, element of the other tensor) in row-major order of the indices.
// Precondition: every index is good, see kernels/microkernels/gather/gather.h.
template <typename Visit>
static void for_each_place(const Indices& indices, size_t rank, size_t axis, const size_t* dims,
                           const size_t* other_dims, const Visit& visit) noexcept {
  size_t strides[kMaxMovementRank];
  size_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    strides[d] = d == axis ? 0 : stride;
    stride *= other_dims[d];
  }
  size_t axis_stride = 1;
  for (size_t d = axis + 1; d < rank; ++d) axis_stride *= other_dims[d];
  const size_t run = dims[rank - 1], step = strides[rank - 1];
  size_t position[kMaxMovementRank] = {};
  size_t base = 0;
  for (size_t i = 0; i < indices.count;) {
    for (size_t j = 0; j < run; ++j, ++i) {
      visit(i, base + j * step + static_cast<size_t>(index_at(indices, i)) * axis_stride);
    }
    for (size_t d = rank - 1; d-- > 0;) {
      base += strides[d];
      if (++position[d] < dims[d]) break;
      base -= strides[d] * dims[d];
      position[d] = 0;
    }
  }
}

}  // namespace alcove::kernels
