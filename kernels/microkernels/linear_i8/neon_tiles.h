// The tiles of int8 products for NEON, for a Way to multiply groups of four, which the including file brings.  Everything here
// has internal linkage, so that no copy for one instruction set is chosen for all.
#pragma once

#include <arm_neon.h>

#include <type_traits>

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

// Adds the products of one group: the weights of it, by that lane of each row's inputs.
template <class Way, int kGroup, int kRows, int kVectors>
[[gnu::always_inline]] inline void add_products(const int8_t* weights, size_t stride, const int8x16_t (&x)[kRows],
                                                typename Way::Sum (&acc)[kRows][kVectors]) noexcept {
  int8x16_t w[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) w[v] = vld1q_s8(weights + kGroup * 64 + v / 4 * stride + v % 4 * 16);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Way::template add_lane<kGroup>(acc[r][v], w[v], x[r]);
  }
}

template <class Way, int kRows, int kPanels>
void tile(const LinearI8& a, size_t row, size_t panel, const Int8Range& range) noexcept {
  constexpr int kVectors = 4 * kPanels;
  const size_t stride = panel_bytes_i8(a.k);
  const int8_t* weights = a.panels + panel * stride + kPanelHeadBytes;
  // Sums of 32 bits begin at their biases.
  constexpr bool kIsPlain = std::is_same_v<typename Way::Sum, int32x4_t>;
  typename Way::Sum acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) {
    const Lanes16::Words bias = kIsPlain ? bias_of(a, panel + static_cast<size_t>(p)) : Lanes16::zero();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kIsPlain) {
        acc[r][4 * p] = bias.a;
        acc[r][4 * p + 1] = bias.b;
        acc[r][4 * p + 2] = bias.c;
        acc[r][4 * p + 3] = bias.d;
      } else {
        for (int v = 4 * p; v < 4 * p + 4; ++v) acc[r][v] = Way::zero();
      }
    }
  }
  for (int part = 0; part < (a.k % 4 == 0 ? 1 : 2); ++part) {
    const GroupsOfFour<kRows> inputs(part, a.input + row * a.input_stride, a.input_stride, a.k);
    size_t group = 0;
    if constexpr (requires { Way::kGroups; }) {
      static_assert(Way::kGroups == 4);
      for (; group + 4 <= inputs.groups; group += 4) {
        int8x16_t x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) x[r] = vld1q_s8(inputs.rows[r] + group * 4);
        add_products<Way, 0>(weights, stride, x, acc);
        add_products<Way, 1>(weights, stride, x, acc);
        add_products<Way, 2>(weights, stride, x, acc);
        add_products<Way, 3>(weights, stride, x, acc);
        weights += 4 * 64;
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
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) {
    const size_t here = panel + static_cast<size_t>(p);
    const Finish finish(a, here, range);
    int8_t* output = a.output + row * a.output_stride + here * 16;
    const size_t output_stride = a.output_stride;
    const bool wants_sums = a.sums != nullptr;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, output += output_stride) {
      const typename Way::Sum* sums = acc[r] + 4 * p;
      Lanes16::Words words = {Way::total(sums[0]), Way::total(sums[1]), Way::total(sums[2]), Way::total(sums[3])};
      if constexpr (!kIsPlain) words = Lanes16::add(words, finish.bias);
      if (wants_sums) {
        store_sums(a, row + static_cast<size_t>(r), here, words);
      } else {
        finish.store(output, words);
      }
    }
  }
}

// Rows from one up to kMostRows, one panel; a single row in up to kFewPanels.
template <class Way, int kFewPanels, int... kRows>
void multiply(const LinearI8& a) noexcept {
  using Tile = void (*)(const LinearI8&, size_t, size_t, const Int8Range&) noexcept;
  static constexpr Tile kTiles[] = {tile<Way, kRows, 1>...};
  constexpr size_t kMostRows = sizeof...(kRows);
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t panels = (a.n + 15) / 16;
  const size_t count = (a.m + kMostRows - 1) / kMostRows;
  const size_t few = a.m / count, longer = a.m % count;
  size_t row = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t rows = few + (i < longer ? 1 : 0);
    size_t panel = 0;
    if (rows == 1) {
      for (; panel + kFewPanels <= panels; panel += kFewPanels) tile<Way, 1, kFewPanels>(a, row, panel, range);
    }
    for (; panel < panels; ++panel) kTiles[rows - 1](a, row, panel, range);
    row += rows;
  }
}

}  // namespace

}  // namespace alcove::kernels
