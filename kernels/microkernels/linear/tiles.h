// The tiles of linear, for vectors V of an instruction set: kRows rows by kVectors vectors, those of some panels or the first of
// one panel that is not full, whose accumulators stay in registers.
// Each instruction set brings its V and includes this file.  Everything here has internal linkage, so that no copy for a wide
// instruction set is chosen for all.
//
// V has kWidth floats; load, store and the like take `lanes`, how many of them are used.
#pragma once

#include "kernels/microkernels/linear/linear.h"
#include "kernels/microkernels/linear/whole_tiles.h"
#include "kernels/long_sum.h"

namespace alcove::kernels {

namespace {

// Registers of a panel: 16 outputs.
template <class V>
inline constexpr int kParts = 16 / static_cast<int>(V::kWidth);

// Whether outputs are only clamped, and whole.
inline bool is_plain(const LinearF32& a, size_t panel, size_t columns) noexcept {
  return a.residual == nullptr && a.activation.function <= Activation::clamp && panel * 16 + columns <= a.n;
}

// What a tile does that has a long sum, adds a residual, applies another function than a clamp, or ends beyond the last
// output.
template <class V>
ALCOVE_ONE_COPY void finish(const LinearF32& a, size_t row, size_t rows, size_t panel, size_t held,
                            const float* sums) noexcept {
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const size_t left = a.n - panel * 16;
  const size_t columns = left < held ? left : held;
  if (is_plain(a, panel, held)) {
    const typename V::Register low = V::fill(a.activation.low), high = V::fill(a.activation.high);
    for (size_t r = 0; r < rows; ++r, sums += held) {
      float* output = a.output + (row + r) * output_stride + panel * 16;
      for (size_t c = 0; c < held; c += V::kWidth) {
        V::store(output + c, V::kWidth, V::clamp(V::load(sums + c, V::kWidth), low, high));
      }
    }
    return;
  }
  for (size_t r = 0; r < rows; ++r, sums += held) {
    const size_t start = (row + r) * output_stride + panel * 16;
    for (size_t c = 0; c < columns; c += V::kWidth) {
      const size_t lanes = columns - c < V::kWidth ? columns - c : V::kWidth;
      typename V::Register y = V::load(sums + c, V::kWidth);
      if (a.residual != nullptr) y = V::add(y, V::load(a.residual + start + c, lanes));
      V::store(a.output + start + c, lanes, activate<V>(a.activation, y));
    }
  }
}

// Adds a block's sums to the levels; returns the total after the last block, when no terms are left.
ALCOVE_ONE_COPY const float* end_block(float* levels, size_t* counts, const float* sums, size_t width, size_t terms,
                                       size_t left) noexcept {
  if (left + kSumBlock >= terms) std::memset(counts, 0, kSumLevels * sizeof *counts);
  add_block(levels, counts, sums, width);
  return left == 0 ? add_levels(levels, counts, width) : nullptr;
}

template <class V, int kRows, int kVectors>
[[gnu::noinline]] void tile(const LinearF32& a, size_t row, size_t panel) noexcept {
  constexpr size_t kColumns = kVectors * V::kWidth;
  const size_t stride = (a.k + 1) * 16;
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const float* line = a.panels + panel * stride;
  typename V::Register acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const typename V::Register bias = V::load(line + v / kParts<V> * stride + v % kParts<V> * V::kWidth, V::kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[r][v] = bias;
  }
  line += 16;
  const size_t run = a.k / a.runs, block = sum_block(a.k);
  // The weights of the next tile's panels: the tiles of the rows bring one panel each.  They lie in pages and lines that nothing
  // has used since the last run of a large model, and no stream of a panel is long enough for the processor to see it coming.
  constexpr size_t kPanels = (kVectors + kParts<V> - 1) / kParts<V>;
  [[maybe_unused]] uintptr_t ahead =
      reinterpret_cast<uintptr_t>(line) + (kPanels + row / kRows % kPanels) * stride * sizeof(float);
  const float* x = a.input + row * input_stride;
  size_t row_left = a.row_runs;
  LongSums<kRows * kColumns> long_sums;
  typename V::Register sums[kRows][kVectors];
  for (size_t left = a.k, at = 0;;) {
    size_t here = left < block ? left : block;
    left -= here;
    // As much of the block as the run has, and on with the next run.
    for (size_t end; here > 0; here -= end) {
      end = run - at < here ? run - at : here;
      const float* from = x + at;
      if constexpr (requires { V::kFactors; }) {
        line = add_run<V>(from, input_stride, end, line, stride, acc);
        from += end;
      }
      for (size_t k = static_cast<size_t>(from - (x + at)); k < end; ++k, line += 16) {
        if constexpr (requires { V::prefetch(ahead); }) {
          V::prefetch(ahead);
          ahead += 16 * sizeof(float);
        }
        typename V::Register w[kVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          w[v] = V::load(line + v / kParts<V> * stride + v % kParts<V> * V::kWidth, V::kWidth);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const typename V::Register factor = V::fill(from[static_cast<size_t>(r) * input_stride + k]);
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) acc[r][v] = V::fma(factor, w[v], acc[r][v]);
        }
      }
      at += end;
      if (at == run) {
        at = 0;
        x += a.run_stride;
        if (--row_left == 0) {
          row_left = a.row_runs;
          x += a.row_stride - a.row_runs * a.run_stride;
        }
      }
    }
    if (left == 0 && a.k <= kLongestChain && is_plain(a, panel, kColumns)) break;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = acc[r][v];
        acc[r][v] = V::fill(0.0f);
      }
    }
    const float* result = reinterpret_cast<const float*>(sums);
    if (a.k > kLongestChain)
      result = end_block(long_sums.levels[0], long_sums.counts, result, kRows * kColumns, a.k, left);
    if (left == 0) return finish<V>(a, row, kRows, panel, kColumns, result);
  }
  const typename V::Register low = V::fill(a.activation.low), high = V::fill(a.activation.high);
  float* output = a.output + row * output_stride + panel * 16;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, output += output_stride) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      V::store(output + static_cast<size_t>(v) * V::kWidth, V::kWidth, V::clamp(acc[r][v], low, high));
    }
  }
}

using Tile = void (*)(const LinearF32&, size_t row, size_t panel);

// Tiles of so many vectors, from one row up.
template <class V, int kVectors, int... kRows>
struct Vectors {
  static constexpr Tile kTiles[] = {tile<V, kRows, kVectors>...};
  static constexpr size_t kMostRows = sizeof...(kRows);

  // All rows, in tiles as even as can be.
  static void run(const LinearF32& a, size_t panel) noexcept {
    if constexpr (requires { V::kFactors; }) {
      if (a.k <= kLongestChain && panel * 16 + kVectors * V::kWidth <= a.n) {
        return run_whole<V, kVectors, kRows...>(a, panel);
      }
    }
    const size_t count = (a.m + kMostRows - 1) / kMostRows;
    const size_t rows = a.m / count;
    const size_t longer = a.m % count;
    size_t row = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t here = rows + (i < longer ? 1 : 0);
      kTiles[here - 1](a, row, panel);
      row += here;
    }
  }
};

// Of so many panels.
template <class V, int kPanels, int... kRows>
using Tiles = Vectors<V, kPanels * kParts<V>, kRows...>;

// Of the first 8 outputs of a panel.
template <class V, int... kRows>
using Halves = Vectors<V, (kParts<V> + 1) / 2, kRows...>;

// Whether the last panel has so few outputs.  Few rows wait for the weights, whose cache lines are whole panels.
inline bool ends_with_half(const LinearF32& a, size_t fewest_rows) noexcept {
  return a.m >= fewest_rows && (a.n - 1) % 16 < 8;
}

}  // namespace

}  // namespace alcove::kernels
