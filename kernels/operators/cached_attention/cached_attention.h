// Scaled dot-product attention over a cache of keys and values, of which a mask allows some.  Queries of `group` neighbouring
// heads share keys and values.  For each index of batch and heads of keys, rows are the queries of its group, [group][length],
// in blocks of kCachedRows; `first` and `end` are the lowest column and one more than the highest that the mask allows any row of
// the block, `first` rounded down to a multiple of 16; all columns if a row has none and `masked` is finite.  Then
//   score[r][s] = (sum over e of query[r][e] * key[s][e]) * scale, or masked where the mask is false
//   e, t = the exponentials of softmax over [first, end) and their sum; +0 and 1 for a row of -inf alone, but NaN if empty_is_nan
//   output[r][v] = (sum over s of e[r][s] * value[s][v]) / t[r]
// Sums over e have one accumulator, in order (kernels/microkernels/linear).  The sum over s is made of blocks of kCachedColumns
// from `first` on, each of one accumulator from +0, in order, and added in order; t is that of kernels/microkernels/softmax.  Of each
// kCachedSteps rows of a block s ends behind the last column that the mask allows any of them (with a row that is allowed none, at
// `end`): behind it e is +0.
// Keys and values outside [first, end) are not read.  A NaN comes out as 0x7FC00000.
//
// The caller has checked: sizes are at least 1, first_block <= end_block <= units * cached_blocks; scratch has cached_attention_scratch_floats; the output
// overlaps no input.  No pointer needs more alignment than its element.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear/linear.h"
#include "kernels/microkernels/softmax/softmax.h"

namespace alcove::kernels {

struct CachedAttentionF32 {
  LinearF32Kernel* linear;
  SoftmaxF32Kernel* softmax;
  const float* query;   // [units][group][length][width]; a unit is an index of batch and heads of keys
  const float* key;     // [units][span][width]
  const float* value;   // [units][span][value_width]
  const uint8_t* mask;  // [length][span] for each index of the batch; an element is true unless it is 0
  float* output;        // [units][group][length][value_width]
  float* scratch;
  size_t first_block, end_block;  // of all units, one after the other
  size_t units_of_batch;
  size_t mask_batch_stride, mask_row_stride;  // in elements, 0 where the mask is repeated
  size_t group, length, span, width, value_width;
  float scale;
  float masked;  // -inf, or far below every score
  bool empty_is_nan;
};

using CachedAttentionF32Kernel = void(const CachedAttentionF32&) noexcept;

CachedAttentionF32Kernel cached_attention_f32_scalar;

inline constexpr size_t kCachedRows = 64, kCachedColumns = 256, kCachedSteps = 32;

// Blocks of rows of a unit.
constexpr size_t cached_blocks(size_t group, size_t length) noexcept {
  return (group * length + kCachedRows - 1) / kCachedRows;
}

// Panels of a block of keys and of values, scores of a block of rows, their sums of values.  For sizes below 2^31, or of a type
// that notices overflow.
template <typename Size>
constexpr Size cached_attention_scratch_floats(Size span, Size width, Size value_width) noexcept {
  return (width + 1) * kCachedColumns + (value_width + 15) * (kCachedColumns + 1) + (span + value_width) * kCachedRows;
}

}  // namespace alcove::kernels
