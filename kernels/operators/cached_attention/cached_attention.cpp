// Finds what the mask allows; linear and softmax do the arithmetic that takes time.
#include "kernels/operators/cached_attention/cached_attention.h"

#include <cstring>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Columns [first, end); none if they are equal.
struct Columns {
  size_t first, end;
};

uint64_t load_eight(const uint8_t* p) noexcept {
  uint64_t eight;
  std::memcpy(&eight, p, 8);
  return eight;
}

bool allows_none_of_64(const uint8_t* p) noexcept {
  uint64_t any = 0;
  for (size_t i = 0; i < 64; i += 8) any |= load_eight(p + i);
  return any == 0;
}

Columns find_allowed(const uint8_t* mask, size_t span) noexcept {
  size_t first = 0, end = span;
  while (first + 64 <= span && allows_none_of_64(mask + first)) first += 64;
  while (end >= first + 64 && allows_none_of_64(mask + end - 64)) end -= 64;
  while (first + 8 <= span && load_eight(mask + first) == 0) first += 8;
  while (first < span && mask[first] == 0) ++first;
  while (end >= first + 8 && load_eight(mask + end - 8) == 0) end -= 8;
  while (end > first && mask[end - 1] == 0) --end;
  return {first, end};
}

bool allows_all(const uint8_t* mask, size_t count) noexcept {
  constexpr uint64_t kOnes = 0x0101010101010101u, kTops = 0x8080808080808080u;
  size_t s = 0;
  for (; s + 8 <= count; s += 8) {
    const uint64_t eight = load_eight(mask + s);
    if (((eight - kOnes) & ~eight & kTops) != 0) return false;  // a byte is 0
  }
  for (; s < count; ++s) {
    if (mask[s] == 0) return false;
  }
  return true;
}

// Some rows of one unit.
struct Block {
  const CachedAttentionF32& a;
  const float *query, *key, *value;
  const uint8_t* mask;
  float* output;
  size_t first_row, rows;

  [[nodiscard]] const uint8_t* mask_of(size_t row) const noexcept {
    return mask + (first_row + row) % a.length * a.mask_row_stride;
  }

  [[nodiscard]] Columns find_columns() const noexcept {
    Columns all = {a.span, 0};
    const size_t different = rows < a.length ? rows : a.length;
    for (size_t row = 0; row < different; ++row) {
      const Columns one = find_allowed(mask_of(row), a.span);
      if (one.first == one.end) {
        if (a.masked > kMinusInfinity) return {0, a.span};
        continue;
      }
      all.first = one.first < all.first ? one.first : all.first;
      all.end = one.end > all.end ? one.end : all.end;
    }
    if (all.end == 0) return {0, a.span < 16 ? a.span : 16};  // nothing is allowed: any columns do
    return {all.first / 16 * 16, all.end};
  }

  // Undivided exponentials in the place of scores.
  void exponentials(const Columns& columns, float* scores, float* sums) const noexcept {
    const size_t count = columns.end - columns.first;
    for (size_t row = 0; row < rows; ++row, scores += count) {
      const uint8_t* allowed = mask_of(row) + columns.first;
      const Columns run = find_allowed(allowed, count);
      const bool is_run = run.first < run.end && allows_all(allowed + run.first, run.end - run.first);
      const bool is_whole = run.end - run.first == count;
      if (is_run && scores[run.first] * a.scale > kMinusInfinity &&
          (is_whole || (a.masked == kMinusInfinity && a.scale > 0.0f))) {
        // Behind the run exponentials are +0, which changes no sum.
        for (size_t s = 0; s < run.first; ++s) scores[s] = kMinusInfinity;
        a.softmax({scores, scores, 1, run.end, false, a.scale, sums + row});
        std::memset(scores + run.end, 0, (count - run.end) * sizeof(float));
        continue;
      }
      bool is_empty = !a.empty_is_nan;
      for (size_t s = 0; s < count; ++s) {
        scores[s] = allowed[s] == 0 ? a.masked : scores[s] * a.scale;
        is_empty = is_empty && scores[s] == kMinusInfinity;
      }
      if (is_empty) {
        std::memset(scores, 0, count * sizeof(float));
        sums[row] = 1.0f;
      } else {
        a.softmax({scores, scores, 1, count, false, 1.0f, sums + row});
      }
    }
  }

  void attend() const noexcept {
    const Columns columns = find_columns();
    const size_t count = columns.end - columns.first;
    float* scores = a.scratch;
    float* part = scores + rows * count;
    float* panels = part + rows * a.value_width;
    for (size_t c = 0; c < count; c += kCachedColumns) {
      const size_t here = count - c < kCachedColumns ? count - c : kCachedColumns;
      pack_panels_f32(key + (columns.first + c) * a.width, a.width, 1, here, a.width, panels);
      LinearF32 product = {query, panels, scores + c, rows, here, a.width};
      product.output_stride = count;
      a.linear(product);
    }
    float sums[kCachedRows];
    exponentials(columns, scores, sums);
    for (size_t c = 0; c < count; c += kCachedColumns) {
      const size_t here = count - c < kCachedColumns ? count - c : kCachedColumns;
      pack_panels_f32(value + (columns.first + c) * a.value_width, 1, a.value_width, a.value_width, here, panels);
      LinearF32 product = {scores + c, panels, c == 0 ? output : part, rows, a.value_width, here};
      product.input_stride = count;
      a.linear(product);
      if (c == 0) continue;
      for (size_t i = 0; i < rows * a.value_width; ++i) output[i] += part[i];
    }
    float* y = output;
    for (size_t row = 0; row < rows; ++row, y += a.value_width) {
      for (size_t v = 0; v < a.value_width; ++v) y[v] = canonical(y[v] / sums[row]);
    }
  }
};

}  // namespace

void cached_attention_f32_scalar(const CachedAttentionF32& a) noexcept {
  const size_t rows = a.group * a.length, blocks = cached_blocks(a.group, a.length);
  for (size_t i = a.first_block; i < a.end_block; ++i) {
    const size_t unit = i / blocks, first = i % blocks * kCachedRows, row = unit * rows + first;
    const Block block = {a,
                         a.query + row * a.width,
                         a.key + unit * a.span * a.width,
                         a.value + unit * a.span * a.value_width,
                         a.mask + unit / a.units_of_batch * a.mask_batch_stride,
                         a.output + row * a.value_width,
                         first,
                         rows - first < kCachedRows ? rows - first : kCachedRows};
    block.attend();
  }
}

}  // namespace alcove::kernels
