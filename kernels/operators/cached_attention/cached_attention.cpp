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

// What the mask allows the rows of a block; the same for all heads, so that it is looked up once for several blocks.
struct AllowedRows {
  const uint8_t* mask = nullptr;
  size_t first_row, rows;  // of the mask
  Columns columns;         // that are computed for all
  Columns of_row[kCachedRows];
  bool is_run[kCachedRows];                 // all of a row's columns are allowed
  size_t ends[kCachedRows / kCachedSteps];  // of the columns that some rows at a time need

  [[nodiscard]] bool holds(const uint8_t* other, size_t row, size_t count) const noexcept {
    return mask == other && first_row == row && rows == count;
  }
};

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

  [[nodiscard]] Columns join(const AllowedRows& allowed) const noexcept {
    Columns all = {a.span, 0};
    for (size_t row = 0; row < rows; ++row) {
      const Columns one = allowed.of_row[row];
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

  void find_allowed_rows(AllowedRows& allowed) const noexcept {
    allowed.mask = mask;
    allowed.first_row = first_row % a.length;
    allowed.rows = rows;
    for (size_t row = 0; row < rows; ++row) {
      if (row >= a.length) {  // a row of the mask again, for another head
        allowed.of_row[row] = allowed.of_row[row - a.length];
        allowed.is_run[row] = allowed.is_run[row - a.length];
        continue;
      }
      const uint8_t* own = mask_of(row);
      const Columns one = find_allowed(own, a.span);
      allowed.of_row[row] = one;
      allowed.is_run[row] = one.first < one.end && allows_all(own + one.first, one.end - one.first);
    }
    allowed.columns = join(allowed);
    for (size_t first = 0; first < rows; first += kCachedSteps) {
      size_t end = 0;
      for (size_t row = first; row < rows && row < first + kCachedSteps; ++row) {
        const Columns one = allowed.of_row[row];
        const size_t own = one.first < one.end ? one.end : allowed.columns.end;
        end = own > end ? own : end;
      }
      allowed.ends[first / kCachedSteps] = end - allowed.columns.first;
    }
  }

  // Undivided exponentials in the place of scores.
  void exponentials(const AllowedRows& allowed, float* scores, float* sums) const noexcept {
    const Columns& columns = allowed.columns;
    const size_t count = columns.end - columns.first;
    for (size_t row = 0; row < rows; ++row, scores += count) {
      const uint8_t* own = mask_of(row) + columns.first;
      const Columns run = {allowed.of_row[row].first - columns.first, allowed.of_row[row].end - columns.first};
      const bool is_whole = run.end - run.first == count;
      if (allowed.is_run[row] && scores[run.first] * a.scale > kMinusInfinity &&
          (is_whole || (a.masked == kMinusInfinity && a.scale > 0.0f))) {
        // Behind the run exponentials are +0, which changes no sum.
        for (size_t s = 0; s < run.first; ++s) scores[s] = kMinusInfinity;
        a.softmax({scores, scores, 1, run.end, false, a.scale, sums + row});
        std::memset(scores + run.end, 0, (count - run.end) * sizeof(float));
        continue;
      }
      bool is_empty = !a.empty_is_nan;
      for (size_t s = 0; s < count; ++s) {
        scores[s] = own[s] == 0 ? a.masked : scores[s] * a.scale;
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

  // product(first row, rows, columns): of the `here` columns from `c` on, those that some rows at a time need.
  template <typename Product>
  void each_step(const AllowedRows& allowed, size_t c, size_t here, const Product& product) const noexcept {
    for (size_t first = 0; first < rows; first += kCachedSteps) {
      const size_t end = allowed.ends[first / kCachedSteps];
      if (end <= c) continue;
      product(first, rows - first < kCachedSteps ? rows - first : kCachedSteps, end - c < here ? end - c : here);
    }
  }

  void attend(const AllowedRows& allowed) const noexcept {
    const Columns& columns = allowed.columns;
    const size_t count = columns.end - columns.first;
    float* scores = a.scratch;
    float* part = scores + rows * count;
    float* panels = part + rows * a.value_width;
    for (size_t c = 0; c < count; c += kCachedColumns) {
      const size_t here = count - c < kCachedColumns ? count - c : kCachedColumns;
      pack_panels_f32(key + (columns.first + c) * a.width, a.width, 1, here, a.width, panels);
      each_step(allowed, c, here, [&](size_t first, size_t some, size_t needed) noexcept {
        LinearF32 product = {query + first * a.width, panels, scores + first * count + c, some, needed, a.width};
        product.output_stride = count;
        a.linear(product);
      });
    }
    float sums[kCachedRows];
    exponentials(allowed, scores, sums);
    for (size_t c = 0; c < count; c += kCachedColumns) {
      const size_t here = count - c < kCachedColumns ? count - c : kCachedColumns;
      each_step(allowed, c, here, [&](size_t first, size_t some, size_t needed) noexcept {
        const float* values = value + (columns.first + c) * a.value_width;
        pack_panels_f32(values, 1, a.value_width, a.value_width, needed, panels);
        float* const own = output + first * a.value_width;
        float* const to = c == 0 ? own : part;
        LinearF32 product = {scores + first * count + c, panels, to, some, a.value_width, needed};
        product.input_stride = count;
        a.linear(product);
        for (size_t i = 0; i < some * a.value_width && c > 0; ++i) own[i] += part[i];
      });
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
  AllowedRows remembered[4];  // of neighbouring blocks of a head
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
    AllowedRows& allowed = remembered[first % a.length / kCachedRows % 4];
    if (!allowed.holds(block.mask, first % a.length, block.rows)) block.find_allowed_rows(allowed);
    block.attend(allowed);
  }
}

}  // namespace alcove::kernels
