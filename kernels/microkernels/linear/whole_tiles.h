// Tiles of linear whose outputs are all there, but of the last vector, and whose sums are not long, for vectors V without masks
// that multiply by one lane of a register (V::kFactors).  One call makes all tiles of so many rows below each other, because what
// is the same for each of them is then made once: with few inputs that takes nearly as long as the products.
#pragma once

#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

namespace {

// Adds the products of one k to the sums: the weights of each panel's line, by lane kLane of each row's factors.
template <class V, int kLane, int kRows, int kVectors, int kPanels>
[[gnu::always_inline]] inline void add_products(const float* (&lines)[kPanels],
                                                const typename V::Register (&factors)[kRows],
                                                typename V::Register (&acc)[kRows][kVectors]) noexcept {
  constexpr int kParts = 16 / static_cast<int>(V::kWidth), kHere = kVectors < kParts ? kVectors : kParts;
  // Panel by panel: their weights lie side by side.
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    typename V::Register w[kHere];
    if constexpr (kRows == 1 && kHere == 4) {  // of more rows, pairs come between the products
      lines[p] = V::load_four(lines[p], w);
    } else {
#pragma GCC unroll 16
      for (int v = 0; v < kHere; ++v) w[v] = V::load(lines[p] + static_cast<size_t>(v) * V::kWidth, V::kWidth);
      lines[p] += 16;
    }
    // The last rows by halves of the registers: the first are free for the next weights that much earlier, which a core that
    // executes in order needs.
    constexpr int kWhole = kRows > 4 ? kRows - 4 : 0;
#pragma GCC unroll 16
    for (int r = 0; r < kWhole; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kHere; ++v) {
        typename V::Register& sum = acc[r][p * kParts + v];
        sum = V::template fma_lane<kLane>(factors[r], w[v], sum);
      }
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 16
      for (int r = kWhole; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int v = half * kHere / 2; v < (half + 1) * kHere / 2; ++v) {
          typename V::Register& sum = acc[r][p * kParts + v];
          sum = V::template fma_lane<kLane>(factors[r], w[v], sum);
        }
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
  constexpr int kParts = 16 / static_cast<int>(V::kWidth), kPanels = (kVectors + kParts - 1) / kParts;
  const float* lines[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) lines[p] = line + static_cast<size_t>(p) * stride;
  for (size_t fours = count / 4; fours > 0; --fours) {
    typename V::Register factors[kRows];
#pragma GCC unroll 16
    for (int r = kRows - 1; r >= 0; --r) {
      factors[r] = V::load(from + static_cast<size_t>(r) * input_stride, V::kWidth);
    }
    from += 4;  // part of the last load, which is why that is the first row's
    add_products<V, 0>(lines, factors, acc);
    add_products<V, 1>(lines, factors, acc);
    add_products<V, 2>(lines, factors, acc);
    add_products<V, 3>(lines, factors, acc);
  }
#pragma GCC unroll 1
  for (size_t left = count % 4; left > 0; --left) {
    typename V::Register factors[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) factors[r] = V::fill(from[static_cast<size_t>(r) * input_stride]);
    ++from;
    add_products<V, 0>(lines, factors, acc);
  }
  return lines[0];
}

// Adds the residual and stores the outputs of a tile, of which a last vector has `lanes`.
template <class V, size_t kRows, size_t kVectors>
[[gnu::always_inline]] inline void store_whole(const LinearF32& a, size_t start, size_t stride, size_t lanes,
                                               typename V::Register (&sums)[kRows][kVectors]) noexcept {
  if (a.residual != nullptr) {
    const float* residual = a.residual + start;
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = V::add(sums[r][v], V::load(residual + v * V::kWidth, kVectors == 1 ? lanes : V::kWidth));
      }
      residual = V::step(residual, stride);
    }
  }
  activate_all<V>(a.activation, sums, [&](auto function) {
    float* output = a.output + start;
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v)
        V::store_result(output + v * V::kWidth, kVectors == 1 ? lanes : V::kWidth, function(sums[r][v]));
      output = V::step(output, stride);
    }
  });
}

// Adds the products of all runs of a row.
template <class V, int kRows, int kVectors>
[[gnu::always_inline]] inline void add_runs(const LinearF32& a, const float* from, size_t input_stride, size_t run,
                                            const float* line, size_t stride,
                                            typename V::Register (&acc)[kRows][kVectors]) noexcept {
  for (size_t runs = a.runs, row_runs = a.row_runs;;) {
    line = add_run<V>(from, input_stride, run, line, stride, acc);
    if (--runs == 0) return;
    from += a.run_stride;
    if (--row_runs == 0) {
      row_runs = a.row_runs;
      from += a.row_stride - row_runs * a.run_stride;
    }
  }
}

// Clamps and stores the outputs of a tile that has no partial vector.
template <class V, size_t kRows, size_t kVectors>
[[gnu::always_inline]] inline void store_clamped(const LinearF32& a, size_t start, size_t stride,
                                                 typename V::Register (&sums)[kRows][kVectors]) noexcept {
  clamp_all<V>(a.activation, sums);
  float* output = a.output + start;
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) V::store_result(output + v * V::kWidth, V::kWidth, sums[r][v]);
    output = V::step(output, stride);
  }
}

// What most tiles of a network are: one run, no residual, a clamp whose upper bound is not 0.  They are asked that once for all.
template <int kRows, int kVectors>
inline constexpr bool kHasPlain = kRows >= 4 && kVectors > 1;

inline bool is_plain_clamp(const LinearF32& a) noexcept {
  return a.runs == 1 && a.residual == nullptr && is_nonzero_clamp(a.activation);
}

// `tiles` tiles from `row` on.
template <class V, int kRows, int kVectors, bool kIsPlain>
[[gnu::noinline]] void whole_tiles(const LinearF32& a, size_t row, size_t tiles, size_t panel) noexcept {
  constexpr int kParts = 16 / static_cast<int>(V::kWidth);
  const size_t stride = (a.k + 1) * 16;
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const size_t run = a.runs == 1 ? a.k : a.k / a.runs;
  [[maybe_unused]] const size_t columns = a.n - panel * 16, lanes = columns < V::kWidth ? columns : V::kWidth;
  const float* const panel_start = a.panels + panel * stride;
  const float* x = a.input + row * input_stride;
  size_t start = row * output_stride + panel * 16;
  for (; tiles > 0; --tiles) {
    const float* line = panel_start;
    typename V::Register acc[kRows][kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const typename V::Register bias = V::load(line + v / kParts * stride + v % kParts * V::kWidth, V::kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) acc[r][v] = bias;
    }
    line += 16;
    if constexpr (kIsPlain) {
      add_run<V>(x, input_stride, run, line, stride, acc);
      store_clamped<V>(a, start, output_stride, acc);
    } else {
      add_runs<V>(a, x, input_stride, run, line, stride, acc);
      store_whole<V>(a, start, output_stride, lanes, acc);
    }
    x += kRows * input_stride;
    start += kRows * output_stride;
  }
}

using WholeTiles = void (*)(const LinearF32&, size_t row, size_t tiles, size_t panel);

// All rows, in tiles of so many vectors as even as can be; the last of kRows is the most rows of one.
template <class V, int kVectors, int... kRows>
void run_whole(const LinearF32& a, size_t panel) noexcept {
  static constexpr WholeTiles kTiles[] = {whole_tiles<V, kRows, kVectors, false>...};
  static constexpr WholeTiles kPlain[] = {whole_tiles<V, kRows, kVectors, kHasPlain<kRows, kVectors>>...};
  const size_t count = (a.m + sizeof...(kRows) - 1) / sizeof...(kRows);
  const size_t rows = a.m / count, longer = a.m % count;
  const WholeTiles* const tiles = is_plain_clamp(a) ? kPlain : kTiles;
  if (longer > 0) tiles[rows](a, 0, longer, panel);
  tiles[rows - 1](a, longer * (rows + 1), count - longer, panel);
}

}  // namespace

}  // namespace alcove::kernels
