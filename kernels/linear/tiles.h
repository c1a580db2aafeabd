// The tiles of linear, for vectors V of an instruction set: kRows rows by kPanels panels, whose accumulators stay in registers.
// Each instruction set brings its V and includes this file.  Everything here has internal linkage, so that no copy for a wide
// instruction set is chosen for all.
//
// V has kWidth floats; load, store and the like take `lanes`, how many of them are used.
#pragma once

#include "kernels/linear/linear.h"

namespace alcove::kernels {

namespace {

// Registers of a panel: 16 outputs.
template <class V>
inline constexpr int kParts = 16 / static_cast<int>(V::kWidth);

// What a tile does that adds a residual, applies another function than a clamp, or ends beyond the last output.
template <class V>
[[gnu::noinline]] void finish(const LinearF32& a, size_t row, size_t rows, size_t panel, size_t panels, const float* sums) noexcept {
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const size_t left = a.n - panel * 16;
  const size_t columns = left < panels * 16 ? left : panels * 16;
  for (size_t r = 0; r < rows; ++r, sums += panels * 16) {
    const size_t start = (row + r) * output_stride + panel * 16;
    for (size_t c = 0; c < columns; c += V::kWidth) {
      const size_t lanes = columns - c < V::kWidth ? columns - c : V::kWidth;
      typename V::Register y = V::load(sums + c, V::kWidth);
      if (a.residual != nullptr) y = V::add(y, V::load(a.residual + start + c, lanes));
      V::store(a.output + start + c, lanes, activated<V>(a.activation, y));
    }
  }
}

template <class V, int kRows, int kPanels>
[[gnu::noinline]] void tile(const LinearF32& a, size_t row, size_t panel) noexcept {
  constexpr int kVectors = kPanels * kParts<V>;
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
  const size_t run = a.k / a.runs;
  const float* x = a.input + row * input_stride;
  for (size_t i = 0; i < a.runs; ++i, x += a.run_stride) {
    for (size_t k = 0; k < run; ++k, line += 16) {
      typename V::Register w[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        w[v] = V::load(line + v / kParts<V> * stride + v % kParts<V> * V::kWidth, V::kWidth);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const typename V::Register at = V::fill(x[static_cast<size_t>(r) * input_stride + k]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) acc[r][v] = V::fma(at, w[v], acc[r][v]);
      }
    }
  }
  if (a.residual == nullptr && a.activation.function <= Activation::clamp && (panel + kPanels) * 16 <= a.n) {
    const typename V::Register low = V::fill(a.activation.low), high = V::fill(a.activation.high);
    float* output = a.output + row * output_stride + panel * 16;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, output += output_stride) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        V::store(output + static_cast<size_t>(v) * V::kWidth, V::kWidth, V::clamp(acc[r][v], low, high));
      }
    }
    return;
  }
  float sums[kRows][kPanels * 16];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) V::store(sums[r] + static_cast<size_t>(v) * V::kWidth, V::kWidth, acc[r][v]);
  }
  finish<V>(a, row, kRows, panel, kPanels, sums[0]);
}

using Tile = void (*)(const LinearF32&, size_t row, size_t panel);

// Rows of a tile of so many panels, and the tiles from one row up to that.
template <class V, int kPanels, int... kRows>
struct Tiles {
  static constexpr Tile kTiles[] = {tile<V, kRows, kPanels>...};
  static constexpr size_t kMostRows = sizeof...(kRows);

  // All rows of kPanels panels, in tiles as even as can be.
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

}  // namespace

}  // namespace alcove::kernels
