// The loops of linear_qd8_qb4w, for a Way to multiply numbers of 8 bits by numbers of 4, which the including file brings.
// Everything here has internal linkage, so that no copy for one instruction set is chosen for all.
//
// Way has
//   V                          the floats of a register (kernels/simd/vector_*.h)
//   Words                      as many int32s
//   fill(int32_t)
//   unpack(words, w)           the weights of 32 inputs, as w[i] for inputs 4 * i to 4 * i + 3, [output][4], in [0, 15]
//   dot(w, q, acc)             acc + for each output the sum of 32 products
//   to_floats(Words)
//   load_scales(p)             floats from their upper halves
// and kernels/simd/lanes16_*.h of the same instruction set.
#pragma once

#include <bit>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/microkernels/linear_qd8_qb4w/linear_qd8_qb4w.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

constexpr size_t kStep = 32;        // inputs that are multiplied at a time
constexpr size_t kStepBytes = 256;  // of a panel's weights for them
// A single row's weights come from memory: some panels at a time, and fetched before they are used, are faster than one.
constexpr int kStreams = 4;
constexpr size_t kAhead = 4096;
constexpr size_t kFarthest = 128 << 10;

// Rows of numbers, as products read them.
struct QuantizedRows {
  int8_t* numbers;  // [rows][groups * group]
  float* scales;    // [rows][groups]
  int32_t* starts;  // [rows][groups]: what makes up for weights that are stored with 8 added
  size_t groups, group;
};

// Numbers of one group: `count` of them, then zeros.
void quantize_group(const float* x, size_t count, const QuantizedRows& to, size_t at) noexcept {
  constexpr uint32_t kInfinity = 0x7F800000u;
  int8_t* q = to.numbers + at * to.group;
  float whole[64];  // of a last group that is not full
  if (count < to.group) {
    for (size_t i = 0; i < to.group; ++i) whole[i] = i < count ? x[i] : 0.0f;
    x = whole;
  }
  uint32_t greatest = 0;  // of the bits without the sign: ordered like the magnitudes, NaN above infinity
  for (size_t step = 0; step < to.group; step += kStep) {
    for (size_t i = 0; i < kStep; ++i) {  // of a known number, so that it is some vectors
      const uint32_t bits = std::bit_cast<uint32_t>(x[step + i]) & 0x7FFFFFFFu;
      greatest = bits > greatest ? bits : greatest;
    }
  }
  if (greatest >= kInfinity) std::memset(q, 0, to.group);
  to.scales[at] = std::bit_cast<float>(kCanonicalNanBits);
  if (greatest >= kInfinity) return;
  float scale = std::bit_cast<float>(greatest) / 127.0f;
  if (scale < 0x1p-100f) scale = 1.0f;
  const Lanes16::Floats inverse = Lanes16::fill(1.0f / scale);
  const Int8Range range = int8_range(-127, 127, 0);
  for (size_t i = 0; i < to.group; i += 16)
    Lanes16::requantize_store(q + i, 16, Lanes16::multiply(Lanes16::load(x + i), inverse), range);
  to.scales[at] = scale;
}

// After all groups of a row: a sum right behind its stores would wait for them.
void sum_group(const QuantizedRows& to, size_t at) noexcept {
  const int8_t* q = to.numbers + at * to.group;
  int32_t sum = 0;
  for (size_t step = 0; step < to.group; step += kStep) {
    for (size_t i = 0; i < kStep; ++i) sum += q[step + i];
  }
  to.starts[at] = -8 * sum;
}

template <class Way, int kRows, int kPanels>
void tile(const LinearQd8Qb4w& a, const QuantizedRows& rows, size_t row, size_t panel, float* output) noexcept {
  using V = typename Way::V;
  constexpr size_t kWidth = V::kWidth;
  constexpr int kParts = 16 / static_cast<int>(kWidth), kAll = kParts * kPanels;
  const size_t stride = panel_bytes_qb4(a.k, a.group);
  const size_t next = kPanels * stride;
  const size_t ahead = kRows == 1 && next > kFarthest ? kAhead : next;
  const int8_t* scales = a.panels + panel * stride;
  const int8_t* weights = scales + panel_head_bytes_qb4(a.k, a.group);
  const size_t groups = rows.groups, group = rows.group, columns = a.n - panel * 16;
  const int8_t* q = rows.numbers + row * groups * group;
  const float* row_scales = rows.scales + row * groups;
  const int32_t* starts = rows.starts + row * groups;
  const auto lanes = [&](int part) noexcept {
    const size_t before = static_cast<size_t>(part) * kWidth;
    return columns <= before ? size_t{0} : columns - before < kWidth ? columns - before : kWidth;
  };
  typename V::Register y[kRows][kAll];
#pragma GCC unroll 16
  for (int part = 0; part < kAll; ++part) {
    const size_t used = a.bias == nullptr ? 0 : lanes(part);
    const typename V::Register bias =
        used == 0 ? V::fill(0.0f) : V::load(a.bias + panel * 16 + static_cast<size_t>(part) * kWidth, used);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) y[r][part] = bias;
  }
  for (size_t g = 0; g < groups; ++g, scales += 32, weights += 8 * group, q += group) {
#pragma GCC unroll 16
    for (int part = 0; part < kAll; ++part) {
      const size_t of_panel = static_cast<size_t>(part / kParts) * stride, at = static_cast<size_t>(part % kParts);
      if (at == 0 && (kRows == 1 || row == 0)) {
        for (size_t line = 0; line < 8 * group; line += 64) __builtin_prefetch(weights + of_panel + ahead + line, 0, 2);
        __builtin_prefetch(scales + of_panel + ahead, 0, 2);
      }
      typename Way::Words acc[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) acc[r] = Way::fill(starts[static_cast<size_t>(r) * groups + g]);
      for (size_t step = 0; step < group / kStep; ++step) {
        typename Way::Words w[8];
        Way::unpack(weights + of_panel + step * kStepBytes + at * 4 * kWidth, w);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
          acc[r] = Way::dot(w, q + static_cast<size_t>(r) * groups * group + step * kStep, acc[r]);
      }
      const typename V::Register scale = Way::load_scales(scales + of_panel + at * 2 * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const typename V::Register both = V::multiply(scale, V::fill(row_scales[static_cast<size_t>(r) * groups + g]));
        y[r][part] = V::fma(Way::to_floats(acc[r]), both, y[r][part]);
      }
    }
  }
#pragma GCC unroll 16
  for (int part = 0; part < kAll; ++part) {
    if (lanes(part) == 0) break;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* to = output + (row + static_cast<size_t>(r)) * a.output_stride + panel * 16;
      V::store(to + static_cast<size_t>(part) * kWidth, lanes(part), y[r][part]);
    }
  }
}

// Rows in tiles of up to sizeof...(kRows), as even as can be; kRows counts from 1.
template <class Way, int... kRows>
void multiply(const LinearQd8Qb4w& a) noexcept {
  using Tile = void (*)(const LinearQd8Qb4w&, const QuantizedRows&, size_t, size_t, float*) noexcept;
  static constexpr Tile kTiles[] = {tile<Way, kRows, 1>...};
  constexpr size_t kMostRows = sizeof...(kRows);
  QuantizedRows rows{};
  rows.group = a.group;
  rows.groups = (a.k + a.group - 1) / a.group;
  rows.numbers = static_cast<int8_t*>(a.scratch);
  rows.scales = reinterpret_cast<float*>(rows.numbers + kGroupedRows * rows.groups * a.group);
  rows.starts = reinterpret_cast<int32_t*>(rows.scales + kGroupedRows * rows.groups);
  for (size_t first = 0; first < a.m; first += kGroupedRows) {
    const size_t here = a.m - first < kGroupedRows ? a.m - first : kGroupedRows;
    for (size_t r = 0; r < here; ++r) {
      for (size_t g = 0; g < rows.groups; ++g) {
        const size_t left = a.k - g * a.group;
        quantize_group(a.input + (first + r) * a.k + g * a.group, left < a.group ? left : a.group, rows,
                       r * rows.groups + g);
      }
      for (size_t g = 0; g < rows.groups; ++g) sum_group(rows, r * rows.groups + g);
    }
    const size_t count = (here + kMostRows - 1) / kMostRows, few = here / count, longer = here % count;
    size_t panel = 0;
    if (here == 1) {
      for (; (panel + kStreams) * 16 <= a.n; panel += kStreams)
        tile<Way, 1, kStreams>(a, rows, 0, panel, a.output + first * a.output_stride);
    }
    for (; panel * 16 < a.n; ++panel) {
      size_t row = 0;
      for (size_t i = 0; i < count; ++i) {
        const size_t some = few + (i < longer ? 1 : 0);
        kTiles[some - 1](a, rows, row, panel, a.output + first * a.output_stride);
        row += some;
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
