// Packs and masks; linear and softmax do the arithmetic that takes time.
#include "kernels/operators/attention/attention.h"
#include "kernels/canonical.h"
#include "kernels/operators/matmul/batch.h"

namespace alcove::kernels {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Rows of scores at a time: as many as stay in the first cache, but enough for a tile of linear.
size_t block_rows(size_t span) noexcept {
  constexpr size_t kFloats = 8192, kFewest = 14;
  const size_t fitting = kFloats / span;
  return fitting > kAttentionRows ? kAttentionRows : fitting < kFewest ? kFewest : fitting;
}

// Scales and masks a row of scores; says whether softmax is to see it: a row of -inf alone may count as empty.
bool mask_row(const AttentionF32& a, size_t row, size_t mask_at, float* scores) noexcept {
  const size_t at = mask_at + row * a.mask_row_stride;
  if (a.float_mask != nullptr && a.mask_column_stride == 1) {  // becomes vector code
    const float* mask = a.float_mask + at;
    for (size_t s = 0; s < a.span; ++s) scores[s] = scores[s] * a.scale + mask[s];
  } else {
    for (size_t s = 0; s < a.span; ++s) scores[s] *= a.scale;
    for (size_t s = 0; a.float_mask != nullptr && s < a.span; ++s) {
      scores[s] += a.float_mask[at + s * a.mask_column_stride];
    }
  }
  if (a.bool_mask != nullptr) {
    const uint8_t* mask = a.bool_mask + at;
    for (size_t s = 0; s < a.span; ++s) {
      if (mask[s * a.mask_column_stride] == 0) scores[s] = a.masked;
    }
  }
  if (a.is_causal) {
    for (size_t s = row + 1; s < a.span; ++s) scores[s] = kMinusInfinity;
  }
  if (a.empty_is_nan) return true;
  for (size_t s = 0; s < a.span; ++s) {
    if (scores[s] != kMinusInfinity) return true;
  }
  return false;
}

// The exponentials of rows of scores and their sums.
void exponentials(const AttentionF32& a, size_t first, size_t rows, size_t mask_at, float* scores,
                  float* sums) noexcept {
  const bool is_plain = a.float_mask == nullptr && a.bool_mask == nullptr && !a.is_causal;
  for (size_t r = 0; r < rows; ++r) {
    float* row = scores + r * a.span;
    if (is_plain && row[0] * a.scale > kMinusInfinity) {
      a.softmax({row, row, 1, a.span, false, a.scale, sums + r});
    } else if (mask_row(a, first + r, mask_at, row)) {
      a.softmax({row, row, 1, a.span, false, 1.0f, sums + r});
    } else {
      for (size_t s = 0; s < a.span; ++s) row[s] = 0.0f;
      sums[r] = 1.0f;
    }
  }
}

void divide_rows(const AttentionF32& a, size_t rows, const float* sums, float* output) noexcept {
  for (size_t r = 0; r < rows; ++r, output += a.value_width) {
    for (size_t v = 0; v < a.value_width; ++v) output[v] = canonical(output[v] / sums[r]);
  }
}

}  // namespace

void attention_f32_scalar(const AttentionF32& a) noexcept {
  const float* packed_key = nullptr;
  const float* packed_value = nullptr;
  float* key_panels = a.scratch;
  float* value_panels = key_panels + panel_floats((a.span + 15) / 16, a.width);
  float* scores = value_panels + panel_floats((a.value_width + 15) / 16, a.span);
  float* output = a.output;
  const size_t block = block_rows(a.span);
  // The last batch dimension's own strides are taken by hand below: its key is that of its group.
  size_t key_strides[kMaxBatchRank];
  size_t value_strides[kMaxBatchRank];
  for (size_t d = 0; d < a.batch_rank; ++d) {
    const bool is_last = d + 1 == a.batch_rank;
    key_strides[d] = is_last ? 0 : a.key_strides[d];
    value_strides[d] = is_last ? 0 : a.value_strides[d];
  }
  BatchWalk<4, kMaxBatchRank> walk;
  do {
    const float* key = a.key + walk.offsets[1];
    const float* value = a.value + walk.offsets[2];
    if (a.batch_rank > 0) {
      const size_t last = a.batch_rank - 1;
      key += walk.index[last] / a.group * a.key_strides[last];
      value += walk.index[last] / a.group * a.value_strides[last];
    }
    if (key != packed_key) pack_panels_f32(key, a.width, 1, a.span, a.width, key_panels);
    if (value != packed_value) pack_panels_f32(value, 1, a.value_width, a.value_width, a.span, value_panels);
    packed_key = key;
    packed_value = value;
    for (size_t first = 0; first < a.length; first += block) {
      const size_t rows = a.length - first < block ? a.length - first : block;
      a.linear({a.query + walk.offsets[0] + first * a.width, key_panels, scores, rows, a.span, a.width});
      float sums[kAttentionRows];
      exponentials(a, first, rows, walk.offsets[3], scores, sums);
      a.linear({scores, value_panels, output, rows, a.value_width, a.span});
      divide_rows(a, rows, sums, output);
      output += rows * a.value_width;
    }
  } while (walk.next(a.batch_rank, a.batch, {a.query_strides, key_strides, value_strides, a.mask_strides}));
}

}  // namespace alcove::kernels
