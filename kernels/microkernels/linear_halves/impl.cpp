// The loops of linear_halves, compiled once for each instruction set.
#include <cstring>

#include "kernels/microkernels/linear_halves/linear_halves.h"
#include "kernels/long_sum.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

struct Vector : Lanes16 {
  using Register = Floats;
};

// Rows and panels of a tile whose sums stay in registers, and as many as hide the time of a multiply-add.  Of few rows several panels:
// several streams from memory are faster than one.
#if defined(ALCOVE_ISA_avx512)
constexpr size_t kTileRows = 4, kTilePanels = 4, kRowPanels = 4;
#elif defined(ALCOVE_ISA_scalar)
constexpr size_t kTileRows = 1, kTilePanels = 1, kRowPanels = 1;
#else
constexpr size_t kTileRows = 6, kTilePanels = 1, kRowPanels = 4;
#endif
constexpr size_t kLineBytes = 32;
static_assert(sizeof(Lanes16::Floats) == 16 * sizeof(float));

// One loop for both types: a branch that always goes one way costs less than a second copy of the loops.
[[gnu::always_inline]] inline Lanes16::Floats load_halves(const uint8_t* p, bool is_f16) noexcept {
  return is_f16 ? Lanes16::widen_f16(p) : Lanes16::widen_bf16(p);
}

// Sums of a tile at `sums`: rows of one panel, or one row of several.
struct Tile {
  size_t row, rows, panel, panels;
};

// Residual, activation, and what is stored.
ALCOVE_ONE_COPY void finish(const LinearHalves& a, const Tile& tile, const float* sums) noexcept {
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  for (size_t p = tile.panel; p < tile.panel + tile.panels && p * 16 < a.n; ++p) {
    const size_t lanes = a.n - p * 16;
    for (size_t r = tile.row; r < tile.row + tile.rows; ++r, sums += 16) {
      const size_t start = r * output_stride + p * 16;
      Lanes16::Floats y = Lanes16::load(sums);
      if (a.residual != nullptr) y = Lanes16::add(y, Lanes16::load_some(a.residual + start, lanes));
      Lanes16::store(a.output + start, lanes, activate<Vector>(a.activation, y));
    }
  }
}

// kRows rows by the panels from `panel` on, of which the last stands in for those that there are not.
template <size_t kRows, size_t kPanels>
[[gnu::noinline]] void multiply_tile(const LinearHalves& a, size_t row, size_t panel) noexcept {
  constexpr size_t kSums = kPanels * kRows * 16;
  const size_t panels = (a.n + 15) / 16, stride = (a.k + 1) * kLineBytes;
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const float* x = a.input + row * input_stride;
  const bool is_f16 = a.is_f16;
  const uint8_t* lines[kPanels];
  Lanes16::Floats acc[kPanels][kRows];
#pragma GCC unroll 8
  for (size_t p = 0; p < kPanels; ++p) {
    lines[p] = a.halves + (panel + p < panels ? panel + p : panels - 1) * stride;
    acc[p][0] = load_halves(lines[p], is_f16);
#pragma GCC unroll 8
    for (size_t r = 1; r < kRows; ++r) acc[p][r] = acc[p][0];
  }
  const size_t block = sum_block(a.k);
  float sums[kSums];
  LongSums<kSums> long_sums;
  if (a.k > kLongestChain) long_sums.clear();
  for (size_t at = 1, left = a.k; left > 0;) {
    const size_t end = at + (left < block ? left : block);
    left -= end - at;
    for (; at < end; ++at, ++x) {
#pragma GCC unroll 8
      for (size_t p = 0; p < kPanels; ++p) {
        const Lanes16::Floats w = load_halves(lines[p] + at * kLineBytes, is_f16);
        if constexpr (kRows == 1 && kPanels > 1)
          __builtin_prefetch(lines[p] + kPanels * stride + at * kLineBytes, 0, 2);
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r) acc[p][r] = Lanes16::fma(Lanes16::fill(x[r * input_stride]), w, acc[p][r]);
      }
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        std::memcpy(sums + (p * kRows + r) * 16, &acc[p][r], sizeof acc[p][r]);
        acc[p][r] = Lanes16::fill(0.0f);
      }
    }
    if (a.k > kLongestChain) add_wide_block(long_sums.levels[0], long_sums.counts, sums, kSums);
  }
  const float* total = a.k > kLongestChain ? add_wide_levels(long_sums.levels[0], long_sums.counts, kSums) : sums;
  finish(a, {row, kRows, panel, kPanels}, total);
}

// From `row` on in tiles of so many; returns the first row that is left.
template <size_t kRows, size_t kPanels>
size_t multiply_rows(const LinearHalves& a, size_t first) noexcept {
  const size_t end = a.m - (a.m - first) % kRows;
  for (size_t column = 0; first < end && column < a.n; column += kPanels * 16) {
    for (size_t row = first; row < end; row += kRows) multiply_tile<kRows, kPanels>(a, row, column / 16);
  }
  return end;
}

}  // namespace

void ALCOVE_PER_ISA(linear_halves)(const LinearHalves& a) noexcept {
  multiply_rows<1, kRowPanels>(a, multiply_rows<kTileRows, kTilePanels>(a, 0));
}

}  // namespace alcove::kernels
