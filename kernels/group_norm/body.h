// The loops of group_norm; compiled once for each instruction set.  Columns go in blocks of at most 64: several small groups
// at once, or one large group in parts.
#pragma once

#include "kernels/canonical.h"
#include "kernels/group_norm/group_norm.h"
#include "kernels/reduce/lanes.h"

namespace alcove::kernels {

namespace {

constexpr auto kSame = [](float v) { return v; };

// What one block of columns of one sample needs to be finished.
struct Columns {
  float mean[kColumns];
  float scale[kColumns];
};

void finish(const GroupNorm& a, const float* x, size_t first, size_t width, const Columns& columns, float* y) {
  const float low = a.low, high = a.high;
  float bias[kColumns];
  for (size_t c = 0; c < width; ++c) bias[c] = a.bias == nullptr ? 0.0f : a.bias[first + c];
  for (size_t s = 0; s < a.positions; ++s) {
    const float* from = x + s * a.channels + first;
    float* to = y + s * a.channels + first;
    // A bias of +0 would turn -0 into +0.
    if (a.bias == nullptr) {
      for (size_t c = 0; c < width; ++c) {
        to[c] = canonical(clamped((from[c] - columns.mean[c]) * columns.scale[c], low, high));
      }
    } else {
      for (size_t c = 0; c < width; ++c) {
        to[c] = canonical(clamped((from[c] - columns.mean[c]) * columns.scale[c] + bias[c], low, high));
      }
    }
  }
}

void set_scale(const GroupNorm& a, float squares, float count, size_t first, size_t width, float* scale) {
  const float r = 1.0f / __builtin_sqrtf(squares / count + a.eps);
  for (size_t c = 0; c < width; ++c) scale[c] = a.weight == nullptr ? r : r * a.weight[first + c];
}

// Groups of at most kColumns channels: as many as fit side by side.
void small_groups(const GroupNorm& a, const float* x, float* y) {
  const size_t size = a.channels / a.groups;
  const auto count = static_cast<float>(a.positions * size);
  const size_t step = kColumns / size * size;
  for (size_t first = 0; first < a.channels; first += step) {
    const size_t width = a.channels - first < step ? a.channels - first : step;
    Columns columns;
    float sums[kColumns];
    fold_columns<Sum<float>>(x + first, a.positions, a.channels, width, [](float v, size_t) { return v; }, sums);
    for (size_t g = 0; g < width; g += size) {
      const float mean = (size == 1 ? sums[g] : fold_row<Sum<float>>(sums + g, size, kSame)) / count;
      for (size_t c = g; c < g + size; ++c) columns.mean[c] = mean;
    }
    const float* mean = columns.mean;
    const auto square = [mean](float v, size_t c) { return (v - mean[c]) * (v - mean[c]); };
    fold_columns<Sum<float>>(x + first, a.positions, a.channels, width, square, sums);
    for (size_t g = 0; g < width; g += size) {
      const float squares = size == 1 ? sums[g] : fold_row<Sum<float>>(sums + g, size, kSame);
      set_scale(a, squares, count, first + g, size, columns.scale + g);
    }
    finish(a, x, first, width, columns, y);
  }
}

// The sum of map over one group of more than kColumns channels.
template <typename Map>
float large_sum(const GroupNorm& a, const float* x, size_t size, Map map) {
  float lanes[kLanes] = {};
  for (size_t c = 0; c < size; c += kColumns) {
    const size_t width = size - c < kColumns ? size - c : kColumns;
    float sums[kColumns];
    fold_columns<Sum<float>>(x + c, a.positions, a.channels, width, map, sums);
    for (size_t k = 0; k < width; ++k) lanes[k % kLanes] += sums[k];
  }
  return tree<Sum<float>>(lanes);
}

void large_groups(const GroupNorm& a, const float* x, float* y) {
  const size_t size = a.channels / a.groups;
  const auto count = static_cast<float>(a.positions * size);
  for (size_t first = 0; first < a.channels; first += size) {
    const float mean = large_sum(a, x + first, size, [](float v, size_t) { return v; }) / count;
    const auto square = [mean](float v, size_t) { return (v - mean) * (v - mean); };
    const float squares = large_sum(a, x + first, size, square);
    for (size_t c = 0; c < size; c += kColumns) {
      const size_t width = size - c < kColumns ? size - c : kColumns;
      Columns columns;
      for (size_t k = 0; k < width; ++k) columns.mean[k] = mean;
      set_scale(a, squares, count, first + c, width, columns.scale);
      finish(a, x, first + c, width, columns, y);
    }
  }
}

inline void group_norm(const GroupNorm& a) {
  for (size_t sample = 0; sample < a.samples; ++sample) {
    const size_t start = sample * a.positions * a.channels;
    if (a.channels / a.groups <= kColumns) {
      small_groups(a, a.input + start, a.output + start);
    } else {
      large_groups(a, a.input + start, a.output + start);
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
