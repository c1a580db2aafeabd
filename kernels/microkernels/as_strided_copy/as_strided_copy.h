// output[i0, .., ik] = input[offset + i0 * stride0 + .. + ik * stridek], output row-major: every permutation, slice,
// flip, expansion, window and diagonal is one of these.  Bits are kept.
//
// `move_strided` is the walk that the movement kernels share: both sides have strides.  It drops dimensions of one
// element, merges what is contiguous on both sides, copies contiguous runs whole and transposes in blocks.
//
// The caller has checked: dims are at least 1, 1 <= element_bytes <= 8 is a power of two, every element named lies
// within its buffer, the two sides don't overlap.  No pointer needs alignment.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

inline constexpr size_t kMaxMovementRank = 8;

// Strides in elements, negative ones too; they count from `from` and `to`, which point at element [0, .., 0].
struct StridedMove {
  const uint8_t* from;
  uint8_t* to;
  size_t element_bytes;
  size_t rank;
  size_t dims[kMaxMovementRank];
  int64_t from_strides[kMaxMovementRank];
  int64_t to_strides[kMaxMovementRank];
};

struct AsStridedCopy {
  const uint8_t* input;
  uint8_t* output;
  size_t element_bytes;
  size_t rank;  // of the output
  size_t dims[kMaxMovementRank];
  int64_t offset;  // in elements
  int64_t strides[kMaxMovementRank];
};

using AsStridedCopyKernel = void(const AsStridedCopy&) noexcept;

AsStridedCopyKernel as_strided_copy_scalar, as_strided_copy_avx2;

void move_strided(const StridedMove& move) noexcept;

// rows x columns elements of 4 bytes change places: neighbours along columns in `from`, along rows in `to`; steps in bytes.
struct TransposeBlock {
  const uint8_t* from;
  ptrdiff_t from_step;  // from row to row
  uint8_t* to;
  ptrdiff_t to_step;  // from column to column
  size_t rows, columns;
};

using TransposeBlockFunction = void(const TransposeBlock&) noexcept;

// A strided copy that leaves blocks of elements of 4 bytes to `transpose`.
void copy_strided(const AsStridedCopy& copy, TransposeBlockFunction* transpose) noexcept;
// In pieces of 4 x 4, then one by one.
void transpose_block(const TransposeBlock& block) noexcept;

}  // namespace alcove::kernels
