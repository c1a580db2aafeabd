// Several index tensors as one: output[i] = (..(place0 * bounds[1] + place1) * bounds[2] + ..), where placek is
// indices[k][i] in [0, bounds[k]), or bounds[k] more than it where it is negative.
//
// Returns which tensor holds the first bad index and where; tensor == count if all are good.  On a bad index the output
// may be partly written.
//
// The caller has checked: 1 <= count <= 8, all tensors have equally many indices, bounds are at least 1 and their product
// is below 2^63, output overlaps nothing.  Everything is aligned.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/indices.h"

namespace alcove::kernels {

inline constexpr size_t kMaxRavelMultiIndexInputs = 8;

struct RavelMultiIndex {
  Indices indices[kMaxRavelMultiIndexInputs];
  size_t bounds[kMaxRavelMultiIndexInputs];
  size_t count;
  int64_t* output;
};

struct RavelMultiIndexResult {
  size_t tensor;
  size_t position;
};

using RavelMultiIndexKernel = RavelMultiIndexResult(const RavelMultiIndex&) noexcept;

RavelMultiIndexKernel ravel_multi_index_scalar;

}  // namespace alcove::kernels
