// The input with `before[d]` positions added in front and `after[d]` behind in each dimension.  What stands there:
//   constant   the element `bits`
//   reflect    the mirror image without the edge: -1 takes from 1, n takes from n - 2
//   replicate  the edge
//   circular   the other end: -1 takes from n - 1, n takes from 0
// Bits are kept.
//
// The caller has checked: dims are at least 1; reflect: before, after < dim; circular: before, after <= dim;
// element_bytes is 1, 2, 4 or 8; output overlaps not the input.  No pointer needs alignment.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

enum class PadMode : uint8_t { constant, reflect, replicate, circular };
inline constexpr size_t kPadModes = 4;

struct Pad {
  const uint8_t* input;
  uint8_t* output;
  size_t element_bytes;
  size_t rank;
  size_t dims[kMaxMovementRank];  // of the input
  size_t before[kMaxMovementRank];
  size_t after[kMaxMovementRank];
  PadMode mode;
  uint64_t bits;  // of one element, in the low bytes
};

using PadKernel = void(const Pad&) noexcept;

PadKernel pad_scalar;

}  // namespace alcove::kernels
