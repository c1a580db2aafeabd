// The tiles of int8 products for NEON, for a Way to multiply groups of four, which the including file brings.  Everything here
// has internal linkage, so that no copy for one instruction set is chosen for all.
#pragma once

#include <arm_neon.h>

#include "kernels/simd/lanes16_neon.h"
#include "kernels/microkernels/linear_i8/linear_i8.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

// Zero where the sums themselves are wanted.
inline Lanes16::Words bias_of(const LinearI8& a, size_t panel) noexcept {
  return a.sums == nullptr ? Lanes16::load_words(a.panels + panel * panel_bytes_i8(a.k)) : Lanes16::zero();
}

// What the sums of a panel become.  Copies, because a byte that is written may lie anywhere.
struct Finish {
  Lanes16::Words bias;
  Lanes16::Floats scale;
  Int8Range range;
  size_t lanes;

  Finish(const LinearI8& a, size_t panel, const Int8Range& bounds) noexcept
      : bias(bias_of(a, panel)),
        scale(Lanes16::load(a.panels + panel * panel_bytes_i8(a.k) + 64)),
        range(bounds),
        lanes(a.n - panel * 16) {}

  [[gnu::always_inline]] inline void store(int8_t* output, const Lanes16::Words& sums) const noexcept {
    Lanes16::requantize_store(output, lanes, Lanes16::multiply(Lanes16::to_floats(sums), scale), range);
  }
};

inline void store_sums(const LinearI8& a, size_t row, size_t panel, const Lanes16::Words& acc) noexcept {
  int32_t* sums = a.sums + row * ((a.n + 15) / 16 * 16) + panel * 16;
  vst1q_s32(sums, acc.a);
  vst1q_s32(sums + 4, acc.b);
  vst1q_s32(sums + 8, acc.c);
  vst1q_s32(sums + 12, acc.d);
}

// Adds the products of one group, by that lane of each row's inputs; the weights step on.
template <class Way, int kGroup, int kRows, int kVectors>
[[gnu::always_inline]] inline void add_products(const int8_t*& weights, [[maybe_unused]] size_t stride,
                                                const int8x16_t (&x)[kRows],
                                                typename Way::Sum (&acc)[kRows][kVectors]) noexcept {
  int8x16_t w[kVectors];
  if constexpr (kRows == 1 && kVectors == 4) {
    const int8x16x4_t four = vld1q_s8_x4(weights);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) w[v] = four.val[v];
    weights += 64;
    asm("" : "+r"(weights));  // a step of each load, and no sum of several
  } else {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) w[v] = vld1q_s8(weights + v / 4 * stride + v % 4 * 16);
    weights += 64;
  }
  // The last rows by halves of the registers: the first are free for the next group that much earlier.
  constexpr int kWhole = kRows > 2 ? kRows - 2 : 0;
#pragma GCC unroll 16
  for (int r = 0; r < kWhole; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Way::template add_lane<kGroup>(acc[r][v], w[v], x[r]);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 2
    for (int r = kWhole; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = half * kVectors / 2; v < (half + 1) * kVectors / 2; ++v) {
        acc[r][v] = Way::template add_lane<kGroup>(acc[r][v], w[v], x[r]);
      }
    }
  }
}

// Adds the products of some groups of four; returns the weights behind.
template <class Way, int kRows, int kVectors>
[[gnu::always_inline]] inline const int8_t* add_groups(const int8_t* weights, size_t stride,
                                                       const GroupsOfFour<kRows>& inputs,
                                                       typename Way::Sum (&acc)[kRows][kVectors]) noexcept {
  size_t group = 0;
  if constexpr (requires { Way::kGroups; }) {
    static_assert(Way::kGroups == 4);
    for (size_t fours = inputs.groups / 4; fours > 0; --fours, group += 4) {
      int8x16_t x[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) x[r] = vld1q_s8(inputs.rows[r] + group * 4);
      add_products<Way, 0>(weights, stride, x, acc);
      add_products<Way, 1>(weights, stride, x, acc);
      add_products<Way, 2>(weights, stride, x, acc);
      add_products<Way, 3>(weights, stride, x, acc);
    }
    if (group + 2 <= inputs.groups) {
      int8x16_t x[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) x[r] = vcombine_s8(vld1_s8(inputs.rows[r] + group * 4), vdup_n_s8(0));
      add_products<Way, 0>(weights, stride, x, acc);
      add_products<Way, 1>(weights, stride, x, acc);
      group += 2;
    }
  }
  for (; group < inputs.groups; ++group, weights += 64) {
    int8x16_t w[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) w[v] = vld1q_s8(weights + v / 4 * stride + v % 4 * 16);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(inputs.at(r, group)));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Way::add(acc[r][v], w[v], x);
    }
  }
  return weights;
}

// Stores a tile's outputs, or its sums.
template <class Way, int kRows, int kVectors>
[[gnu::always_inline]] inline void store_tile(const LinearI8& a, size_t row, size_t panel, const Int8Range& range,
                                              const typename Way::Sum (&acc)[kRows][kVectors]) noexcept {
#pragma GCC unroll 16
  for (int p = 0; p < kVectors / 4; ++p) {
    const size_t here = panel + static_cast<size_t>(p);
    const Finish finish(a, here, range);
    int8_t* output = a.output + row * a.output_stride + here * 16;
    const size_t output_stride = a.output_stride;
    const bool wants_sums = a.sums != nullptr;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, output += output_stride) {
      const typename Way::Sum* sums = acc[r] + 4 * p;
      Lanes16::Words words = {Way::total(sums[0]), Way::total(sums[1]), Way::total(sums[2]), Way::total(sums[3])};
      if constexpr (!Way::kIsPlain) words = Lanes16::add(words, finish.bias);
      if (wants_sums) {
        store_sums(a, row + static_cast<size_t>(r), here, words);
      } else {
        finish.store(output, words);
      }
    }
  }
}

// `count` tiles below each other: what they share, above all the registers that a call saves, takes as long as the products of
// few inputs.
template <class Way, int kRows, int kPanels>
[[gnu::noinline]] void make_tiles(const LinearI8& args, size_t row, size_t count, size_t panel,
                                  const Int8Range& bounds) noexcept {
  constexpr int kVectors = 4 * kPanels;
  // Copies, because a byte that is written may lie anywhere.
  const LinearI8 a = args;
  const Int8Range range = bounds;
  const size_t stride = panel_bytes_i8(a.k);
  const int8_t* const first_weights = a.panels + panel * stride + kPanelHeadBytes;
  for (; count > 0; --count, row += kRows) {
    // Sums of 32 bits begin at their biases.
    typename Way::Sum acc[kRows][kVectors];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const Lanes16::Words bias = Way::kIsPlain ? bias_of(a, panel + static_cast<size_t>(p)) : Lanes16::zero();
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        if constexpr (Way::kIsPlain) {
          acc[r][4 * p] = bias.a;
          acc[r][4 * p + 1] = bias.b;
          acc[r][4 * p + 2] = bias.c;
          acc[r][4 * p + 3] = bias.d;
        } else {
          for (int v = 4 * p; v < 4 * p + 4; ++v) acc[r][v] = Way::zero();
        }
      }
    }
    const int8_t* const input = a.input + row * a.input_stride;
    const int8_t* weights =
        add_groups<Way>(first_weights, stride, GroupsOfFour<kRows>(0, input, a.input_stride, a.k), acc);
    if (a.k % 4 != 0) add_groups<Way>(weights, stride, GroupsOfFour<kRows>(1, input, a.input_stride, a.k), acc);
    store_tile<Way>(a, row, panel, range, acc);
  }
}

using MakeTiles = void (*)(const LinearI8&, size_t row, size_t count, size_t panel, const Int8Range&) noexcept;

// Bytes of inputs that all panels are multiplied with before the next: they stay in the first cache.
constexpr size_t kBlockBytes = 16384;

// `count` tiles of so many rows, all panels from `panel` on.
inline void make_all(const LinearI8& a, MakeTiles make, size_t row, size_t rows, size_t count, size_t panel,
                     const Int8Range& range) noexcept {
  const size_t fitting = kBlockBytes / (rows * a.k), block = fitting > 0 ? fitting : 1;
  for (size_t done = 0; done < count; done += block) {
    const size_t here = count - done < block ? count - done : block;
    for (size_t p = panel; p < (a.n + 15) / 16; ++p) make(a, row + done * rows, here, p, range);
  }
}

// Rows from one up to kMostRows, one panel; a single row in up to kFewPanels.
template <class Way, int kFewPanels, int... kRows>
void multiply(const LinearI8& a) noexcept {
  static constexpr MakeTiles kTiles[] = {make_tiles<Way, kRows, 1>...};
  constexpr size_t kMostRows = sizeof...(kRows);
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t count = (a.m + kMostRows - 1) / kMostRows, rows = a.m / count, longer = a.m % count;
  if (longer > 0) make_all(a, kTiles[rows], 0, rows + 1, longer, 0, range);
  size_t panel = 0;
  if (rows == 1) {
    for (; (panel + kFewPanels) * 16 <= a.n + 15; panel += kFewPanels) {
      make_tiles<Way, 1, kFewPanels>(a, longer * 2, count - longer, panel, range);
    }
  }
  make_all(a, kTiles[rows - 1], longer * (rows + 1), rows, count - longer, panel, range);
}

}  // namespace

}  // namespace alcove::kernels
