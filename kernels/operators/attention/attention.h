// Scaled dot-product attention, for each index b of the batch dimensions:
//   score[l][s] = (sum over e of query[b][l][e] * key[b][s][e]) * scale
//   score[l][s] = -inf if is_causal and s > l; if there is a mask: score + mask (float), or masked where it is false (bool)
//   e, t = the exponentials of softmax and their sum, for each row of scores; +0 and 1 for a row of -inf alone, but NaN if
//   empty_is_nan
//   output[b][l][v] = (sum over s of e[l][s] * value[b][s][v]) / t[l]
// Sums over e and s have one accumulator each, from +0, in order, fused multiply-add; t is that of kernels/microkernels/softmax.  A NaN comes
// out as 0x7FC00000.
//
// Key and value are packed into panels and `linear` multiplies them; neighbouring batches that share them (grouped
// queries) share the panels too.  Scores exist for a block of rows at a time.
//
// The caller has checked: sizes are at least 1; every index of the batch, times its strides, stays within the operand;
// scratch has attention_scratch_floats; the output overlaps no input.  No pointer needs more alignment than its element.
// Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear/linear.h"
#include "kernels/operators/matmul/matmul.h"
#include "kernels/microkernels/softmax/softmax.h"

namespace alcove::kernels {

struct AttentionF32 {
  LinearF32Kernel* linear;
  SoftmaxF32Kernel* softmax;
  const float* query;        // [length][width] at query + index . query_strides
  const float* key;          // [span][width]
  const float* value;        // [span][value_width]
  const float* float_mask;   // null: none; at most one of the masks is given
  const uint8_t* bool_mask;  // null: none; an element is true unless it is 0
  float* output;             // dense: [batch...][length][value_width]
  float* scratch;
  size_t batch_rank;  // 0 to kMaxBatchRank
  size_t batch[kMaxBatchRank];
  size_t query_strides[kMaxBatchRank];  // in elements, 0 where the operand is repeated
  size_t key_strides[kMaxBatchRank];
  size_t value_strides[kMaxBatchRank];
  size_t mask_strides[kMaxBatchRank];
  size_t mask_row_stride, mask_column_stride;
  size_t group;  // of the last batch dimension so many neighbours share key and value; 1 without batch dimensions
  size_t length, span, width, value_width;
  float scale;
  float masked;  // -inf, or what a hand-written mask fills in
  bool is_causal, empty_is_nan;
};

using AttentionF32Kernel = void(const AttentionF32&) noexcept;

AttentionF32Kernel attention_f32_scalar;

inline constexpr size_t kAttentionRows = 64;

// Key panels, value panels, scores.  For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size attention_scratch_floats(size_t length, size_t span, Size width, size_t value_width) noexcept {
  const size_t rows = length < kAttentionRows ? length : kAttentionRows;
  return panel_floats<Size>((span + 15) / 16, width) + panel_floats<Size>((value_width + 15) / 16, Size(span)) +
         Size(rows) * span;
}

}  // namespace alcove::kernels
