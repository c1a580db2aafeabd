// torch.scatter and scatter_reduce: output = input, then for each position of indices, row-major,
//   output[i0, .., indices[i0, .., ik], .., ik] op= source[i0, .., ik], the index standing at `axis`.
//   set        the source; the last in row-major order wins
//   add, mul   f32: one rounding each; i32 and i64 wrap around
//   amax, amin f32: a NaN wins
// Without `includes_self` the input's value takes no part where a source does.  An f32 NaN that is computed is 0x7FC00000.
//
// Returns the position (row-major in indices) of the first index outside [0, output_dims[axis]), having written nothing;
// indices.count if all are good.
//
// The caller has checked: 1 <= rank <= 8; dims are at least 1; indices.count is the product of dims;
// dims[d] <= source_dims[d], and <= output_dims[d] for d != axis; output is exactly the input or overlaps nothing.
// Everything is aligned to its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/indices.h"
#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

enum class ScatterMode : uint8_t { set, add, mul, amax, amin };
inline constexpr size_t kScatterModes = 5;

struct Scatter {
  const void* input;
  Indices indices;
  const void* source;
  void* output;
  size_t element_bytes;  // used by set alone
  size_t rank;
  size_t axis;
  size_t dims[kMaxMovementRank];  // of indices
  size_t source_dims[kMaxMovementRank];
  size_t output_dims[kMaxMovementRank];
  ScatterMode mode;  // scatter_any: set, the others: anything else
  bool includes_self;
};

using ScatterKernel = size_t(const Scatter&) noexcept;

ScatterKernel scatter_any_scalar, scatter_f32_scalar, scatter_i32_scalar, scatter_i64_scalar;

}  // namespace alcove::kernels
