// Scaled dot-product attention in int8, for each index b of the batch dimensions:
//   score[l][s] = float(sum over e of (query[b][l][e] - query zero point) * (key[b][s][e] - key zero point)) * scale
//   score[l][s] = -inf if is_causal and s > l; if there is a mask: score + mask (float), or masked where it is false (bool)
//   e = the exponentials of softmax, for each row of scores; NaN for a row of -inf alone, or with a NaN
//   u[l][s] = rint(clamp(e[l][s] * 255, 0, 255)), 0 for a NaN; n[l] = sum over s of u[l][s]
//   output[b][l][v] = requantize(float(sum over s of u[l][s] * (value[b][s][v] - value zero point)) * (ratio / float(n[l]))),
//   and requantize(0) if n[l] is 0
// Sums are int32 and exact (kernels/requantize.h has the rule); the exponentials are those of kernels/microkernels/softmax.
//
// Key and value are packed into panels and `linear` multiplies them; neighboring batches that share them share the panels too.
//
// The caller has checked: sizes are at least 1, width <= 65,536, span <= 32,768 (255 * 255 * span fits an int32); every index of
// the batch, times its strides, stays within the operand; scratch is aligned to an int32 and has attention_i8_scratch_bytes; the
// output overlaps no input.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear_i8/linear_i8.h"
#include "kernels/microkernels/softmax/softmax.h"
#include "kernels/operators/matmul/matmul.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

struct AttentionI8 {
  LinearI8Kernel* linear;
  SoftmaxF32Kernel* softmax;
  const int8_t* query;       // [length][width] at query + index . query_strides
  const int8_t* key;         // [span][width]
  const int8_t* value;       // [span][value_width]
  const float* float_mask;   // null: none; at most one of the masks is given
  const uint8_t* bool_mask;  // null: none; an element is true unless it is 0
  int8_t* output;            // dense: [batch...][length][value_width]
  void* scratch;
  size_t batch_rank;  // 0 to kMaxBatchRank
  size_t batch[kMaxBatchRank];
  size_t query_strides[kMaxBatchRank];  // in elements, 0 where the operand is repeated
  size_t key_strides[kMaxBatchRank];
  size_t value_strides[kMaxBatchRank];
  size_t mask_strides[kMaxBatchRank];
  size_t mask_row_stride, mask_column_stride;
  size_t group;  // of the last batch dimension so many neighbors share key and value; 1 without batch dimensions
  size_t length, span, width, value_width;
  float scale, ratio;
  float masked;
  bool is_causal;
  int32_t query_zero_point, key_zero_point, value_zero_point;
  int32_t zero_point, low, high;  // of the output
};

using AttentionI8Kernel = void(const AttentionI8&) noexcept;

AttentionI8Kernel attention_i8_scalar, attention_i8_avx2, attention_i8_avx512, attention_i8_neon;

inline constexpr size_t kAttentionI8Rows = 32;  // of scores at a time
inline constexpr size_t kMaxSpanI8 = 32768;

// Sums of keys and of values, scores, sums of products, exponentials, key panels, value panels.  For sizes below 2^31, or of a
// type that notices overflow; one expression of the span in panels, so that sizes may vary.
template <typename Size>
constexpr Size attention_i8_scratch_bytes(size_t span, size_t width, size_t value_width) noexcept {
  const size_t keys = (span + 15) / 16, values = (value_width + 15) / 16;
  const Size row = (Size(keys) + values) * 64;
  return row + (row + Size(keys) * 16) * kAttentionI8Rows + Size(panel_bytes_i8(width)) * keys +
         (Size(keys) * 256 + kPanelHeadBytes) * values;
}

}  // namespace alcove::kernels
