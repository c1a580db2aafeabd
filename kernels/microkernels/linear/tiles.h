// The tiles of linear, for vectors V of an instruction set: kRows rows by kVectors vectors, those of some panels or the first of
// one panel that is not full, whose accumulators stay in registers.
// Each instruction set brings its V and includes this file.  Everything here has internal linkage, so that no copy for a wide
// instruction set is chosen for all.
//
// V has kWidth floats; load, store and the like take `lanes`, how many of them are used.
#pragma once

#include "kernels/microkernels/linear/linear.h"
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

// Adds the products of one k to the sums: the weights of each panel's line, by lane kLane of each row's factors.
template <class V, int kLane, int kRows, int kVectors, int kPanels>
[[gnu::always_inline]] inline void add_products(const float* (&lines)[kPanels],
                                                const typename V::Register (&factors)[kRows],
                                                typename V::Register (&acc)[kRows][kVectors]) noexcept {
  // Panel by panel: their weights lie side by side.
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    constexpr int kHere = kVectors < kParts<V> ? kVectors : kParts<V>;
    typename V::Register w[kHere];
    // Of one row nearly every second instruction is a load.
    if constexpr (kRows == 1 && kHere == 4) {
      lines[p] = V::load_four(lines[p], w);
    } else {
#pragma GCC unroll 16
      for (int v = 0; v < kHere; ++v) w[v] = V::load(lines[p] + static_cast<size_t>(v) * V::kWidth, V::kWidth);
      lines[p] += 16;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kHere; ++v) {
        typename V::Register& sum = acc[r][p * kParts<V> + v];
        sum = V::template fma_lane<kLane>(factors[r], w[v], sum);
      }
    }
  }
}

// Adds the products of `count` inputs, of which each row has four in a register at a time; returns the weights behind.
template <class V, int kRows, int kVectors>
[[gnu::always_inline]] inline const float* add_run(const float* from, size_t input_stride, size_t count,
                                                   const float* line, size_t stride,
                                                   typename V::Register (&acc)[kRows][kVectors]) noexcept {
  static_assert(V::kFactors == 4);
  constexpr int kPanels = (kVectors + kParts<V> - 1) / kParts<V>;
  const float* lines[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) lines[p] = line + static_cast<size_t>(p) * stride;
  size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    typename V::Register factors[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      factors[r] = V::load(from + static_cast<size_t>(r) * input_stride + k, V::kWidth);
    }
    add_products<V, 0>(lines, factors, acc);
    add_products<V, 1>(lines, factors, acc);
    add_products<V, 2>(lines, factors, acc);
    add_products<V, 3>(lines, factors, acc);
  }
  for (; k < count; ++k) {
    typename V::Register factors[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) factors[r] = V::fill(from[static_cast<size_t>(r) * input_stride + k]);
    add_products<V, 0>(lines, factors, acc);
  }
  return lines[0];
}

// Ends a tile whose outputs are all there, in registers: for vectors without masks.  `start` is where the first output lies.
template <class V, size_t kRows, size_t kVectors>
[[gnu::always_inline]] inline void store_whole(const LinearF32& a, size_t start, size_t output_stride,
                                               typename V::Register (&sums)[kRows][kVectors]) noexcept {
  if (a.residual != nullptr) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        const float* residual = a.residual + start + r * output_stride + v * V::kWidth;
        sums[r][v] = V::add(sums[r][v], V::load(residual, V::kWidth));
      }
    }
  }
  activate_all<V>(a.activation, sums);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) {
      V::store_result(a.output + start + r * output_stride + v * V::kWidth, V::kWidth, sums[r][v]);
    }
  }
}

// A tile whose outputs are all there and whose sums are not long.
template <class V, int kRows, int kVectors>
[[gnu::noinline]] void whole_tile(const LinearF32& a, size_t row, size_t panel) noexcept {
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
  const size_t run = a.runs == 1 ? a.k : a.k / a.runs;
  const float* x = a.input + row * input_stride;
  for (size_t left = a.runs; left > 0; left -= a.row_runs, x += a.row_stride) {
    for (size_t at = 0; at < a.row_runs; ++at)
      line = add_run<V>(x + at * a.run_stride, input_stride, run, line, stride, acc);
  }
  store_whole<V>(a, row * output_stride + panel * 16, output_stride, acc);
}

template <class V, int kRows, int kVectors>
[[gnu::noinline]] void tile(const LinearF32& a, size_t row, size_t panel) noexcept {
  constexpr size_t kColumns = kVectors * V::kWidth;
  if constexpr (requires { V::kFactors; }) {
    if (a.k <= kLongestChain && panel * 16 + kColumns <= a.n) return whole_tile<V, kRows, kVectors>(a, row, panel);
  }
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
