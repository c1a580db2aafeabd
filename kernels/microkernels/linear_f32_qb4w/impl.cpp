// The loops of linear_f32_qb4w, compiled once for each instruction set.
#include "kernels/microkernels/linear_f32_qb4w/linear_f32_qb4w.h"
#include "kernels/long_sum.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

template <int kRows, int kNibble>
void step(const float* x, size_t k, const Lanes16::Words& words, Lanes16::Floats (&part)[kRows]) noexcept {
  const Lanes16::Floats w = Lanes16::nibble<kNibble>(words);
  for (int r = 0; r < kRows; ++r)
    part[r] = Lanes16::fma(Lanes16::fill(x[static_cast<size_t>(r) * k + kNibble]), w, part[r]);
}

// The first `count` of eight inputs.
template <int kRows>
void steps(const float* x, size_t k, size_t count, const Lanes16::Words& words,
           Lanes16::Floats (&part)[kRows]) noexcept {
  step<kRows, 0>(x, k, words, part);
  if (count > 1) step<kRows, 1>(x, k, words, part);
  if (count > 2) step<kRows, 2>(x, k, words, part);
  if (count > 3) step<kRows, 3>(x, k, words, part);
  if (count > 4) step<kRows, 4>(x, k, words, part);
  if (count > 5) step<kRows, 5>(x, k, words, part);
  if (count > 6) step<kRows, 6>(x, k, words, part);
  if (count > 7) step<kRows, 7>(x, k, words, part);
}

// Weights are unpacked once for kRows rows.
template <int kRows>
void tile(const LinearF32Qb4w& a, size_t row, size_t panel) noexcept {
  const int8_t* block = a.panels + panel * panel_bytes_i4(a.k, a.group);
  const float* x = a.input + row * a.k;
  const size_t k = a.k;
  const size_t lanes = a.n - panel * 16;
  const Lanes16::Floats bias = a.bias != nullptr ? Lanes16::load_some(a.bias + panel * 16, lanes) : Lanes16::fill(0.0f);
  Lanes16::Floats y[kRows];
  for (int r = 0; r < kRows; ++r) y[r] = bias;
  const bool is_long = (k + a.group - 1) / a.group > kLongestChain;
  LongSums<kRows * 16> long_sums;
  if (is_long) long_sums.clear();
  const auto end_block = [&] {
    float sums[kRows * 16];
    for (int r = 0; r < kRows; ++r) {
      Lanes16::store(sums + 16 * r, 16, y[r]);
      y[r] = Lanes16::fill(0.0f);
    }
    long_sums.add(sums);
  };
  for (size_t first = 0; first < k; first += a.group, block += 64 + 8 * a.group) {
    if (is_long && first > 0 && first / a.group % kSumBlock == 0) end_block();
    const size_t last = k - first < a.group ? k : first + a.group;
    const int8_t* words = block + 64;
    Lanes16::Floats part[kRows];
    for (int r = 0; r < kRows; ++r) part[r] = Lanes16::fill(0.0f);
    size_t eight = first;
    for (; eight + 8 <= last; eight += 8, words += 64) {
      steps<kRows>(x + eight, k, 8, Lanes16::load_words(words), part);
    }
    if (eight < last) steps<kRows>(x + eight, k, last - eight, Lanes16::load_words(words), part);
    const Lanes16::Floats scale = Lanes16::load(block);
    for (int r = 0; r < kRows; ++r) y[r] = Lanes16::fma(part[r], scale, y[r]);
  }
  if (is_long) {
    end_block();
    const float* total = long_sums.total();
    for (int r = 0; r < kRows; ++r) y[r] = Lanes16::load(total + 16 * r);
  }
  for (int r = 0; r < kRows; ++r)
    Lanes16::store(a.output + (row + static_cast<size_t>(r)) * a.n + panel * 16, lanes, y[r]);
}

void multiply(const LinearF32Qb4w& a) noexcept {
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) {
    for (size_t panel = 0; panel * 16 < a.n; ++panel) tile<4>(a, row, panel);
  }
  for (; row < a.m; ++row) {
    for (size_t panel = 0; panel * 16 < a.n; ++panel) tile<1>(a, row, panel);
  }
}

}  // namespace

void ALCOVE_PER_ISA(linear_f32_qb4w)(const LinearF32Qb4w& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
