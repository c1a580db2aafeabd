// The loops of linear_f32_qb4w, compiled once for each instruction set.
#include <algorithm>

#include "kernels/microkernels/linear_f32_qb4w/linear_f32_qb4w.h"
#include "kernels/long_sum.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

// Of a single row several panels: their chains of multiply-adds run side by side, and several streams from memory are faster
// than one.
// As many as leave room for the weights in registers.
#if defined(ALCOVE_ISA_avx512)
constexpr int kStreams = 4;
#elif defined(ALCOVE_ISA_avx2)
constexpr int kStreams = 2;
#else
constexpr int kStreams = 1;
#endif

template <int kRows, int kPanels>
struct Part {
  Lanes16::Floats sums[kPanels][kRows];
  Lanes16::Words words[kPanels];
};

template <int kRows, int kPanels, int kNibble>
void step(const float* x, size_t k, Part<kRows, kPanels>& part) noexcept {
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    const Lanes16::Floats w = Lanes16::nibble<kNibble>(part.words[p]);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      part.sums[p][r] = Lanes16::fma(Lanes16::fill(x[static_cast<size_t>(r) * k + kNibble]), w, part.sums[p][r]);
  }
}

// The first `count` of eight inputs.
template <int kRows, int kPanels>
void steps(const float* x, size_t k, size_t count, Part<kRows, kPanels>& part) noexcept {
  step<kRows, kPanels, 0>(x, k, part);
  if (count > 1) step<kRows, kPanels, 1>(x, k, part);
  if (count > 2) step<kRows, kPanels, 2>(x, k, part);
  if (count > 3) step<kRows, kPanels, 3>(x, k, part);
  if (count > 4) step<kRows, kPanels, 4>(x, k, part);
  if (count > 5) step<kRows, kPanels, 5>(x, k, part);
  if (count > 6) step<kRows, kPanels, 6>(x, k, part);
  if (count > 7) step<kRows, kPanels, 7>(x, k, part);
}

// Weights are unpacked once for kRows rows.
template <int kRows, int kPanels>
void tile(const LinearF32Qb4w& a, size_t row, size_t panel) noexcept {
  constexpr int kSums = kPanels * kRows;
  const size_t stride = panel_bytes_i4(a.k, a.group);
  const int8_t* block = a.panels + panel * stride;
  const float* x = a.input + row * a.k;
  const size_t k = a.k;
  Lanes16::Floats y[kPanels][kRows];
  for (int p = 0; p < kPanels; ++p) {
    const size_t column = (panel + static_cast<size_t>(p)) * 16;
    const Lanes16::Floats bias =
        a.bias != nullptr ? Lanes16::load_some(a.bias + column, a.n - column) : Lanes16::fill(0.0f);
    std::fill_n(y[p], kRows, bias);
  }
  const bool is_long = (k + a.group - 1) / a.group > kLongestChain;
  LongSums<kSums * 16> long_sums;
  if (is_long) long_sums.clear();
  const auto end_block = [&] {
    float sums[kSums * 16];
    for (int i = 0; i < kSums; ++i) {
      Lanes16::store(sums + 16 * i, 16, y[i / kRows][i % kRows]);
      y[i / kRows][i % kRows] = Lanes16::fill(0.0f);
    }
    long_sums.add(sums);
  };
  Part<kRows, kPanels> part;
  for (size_t first = 0; first < k; first += a.group, block += 64 + 8 * a.group) {
    if (is_long && first > 0 && first / a.group % kSumBlock == 0) end_block();
    const size_t last = k - first < a.group ? k : first + a.group;
    const int8_t* words = block + 64;
    const auto load = [&] {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        const int8_t* from = words + static_cast<size_t>(p) * stride;
        part.words[p] = Lanes16::load_words(from);
        if constexpr (kPanels > 1) __builtin_prefetch(from + kPanels * stride, 0, 2);
      }
    };
    for (auto& sums : part.sums) std::fill_n(sums, kRows, Lanes16::fill(0.0f));
    size_t eight = first;
    for (; eight + 8 <= last; eight += 8, words += 64) {
      load();
      steps(x + eight, k, 8, part);
    }
    if (eight < last) {
      load();
      steps(x + eight, k, last - eight, part);
    }
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const Lanes16::Floats scale = Lanes16::load(block + static_cast<size_t>(p) * stride);
      for (int r = 0; r < kRows; ++r) y[p][r] = Lanes16::fma(part.sums[p][r], scale, y[p][r]);
    }
  }
  if (is_long) {
    end_block();
    const float* total = long_sums.total();
    for (int i = 0; i < kSums; ++i) y[i / kRows][i % kRows] = Lanes16::load(total + 16 * i);
  }
  for (int i = 0; i < kSums; ++i) {
    const size_t column = (panel + static_cast<size_t>(i / kRows)) * 16;
    float* output = a.output + (row + static_cast<size_t>(i % kRows)) * a.n + column;
    Lanes16::store(output, a.n - column, y[i / kRows][i % kRows]);
  }
}

void multiply(const LinearF32Qb4w& a) noexcept {
  const size_t panels = (a.n + 15) / 16;
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) {
    for (size_t panel = 0; panel < panels; ++panel) tile<4, 1>(a, row, panel);
  }
  for (; row < a.m; ++row) {
    size_t panel = 0;
    for (; panel + kStreams <= panels; panel += kStreams) tile<1, kStreams>(a, row, panel);
    for (; panel < panels; ++panel) tile<1, 1>(a, row, panel);
  }
}

}  // namespace

void ALCOVE_PER_ISA(linear_f32_qb4w)(const LinearF32Qb4w& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
