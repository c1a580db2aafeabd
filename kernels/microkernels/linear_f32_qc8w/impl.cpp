// The loops of linear_f32_qc8w, compiled once for each instruction set.
#include <algorithm>

#include "kernels/microkernels/linear_f32_qc8w/linear_f32_qc8w.h"
#include "kernels/long_sum.h"
#include "kernels/requantize.h"
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

template <int kRows, int kPanels, int kByte>
void step(const float* x, size_t k, const Lanes16::Words (&fours)[kPanels],
          Lanes16::Floats (&acc)[kPanels][kRows]) noexcept {
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    const Lanes16::Floats w = Lanes16::byte<kByte>(fours[p]);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      acc[p][r] = Lanes16::fma(Lanes16::fill(x[static_cast<size_t>(r) * k + kByte]), w, acc[p][r]);
  }
}

// Weights are widened once for kRows rows.
template <int kRows, int kPanels>
void tile(const LinearF32Qc8w& a, size_t row, size_t panel) noexcept {
  constexpr int kSums = kPanels * kRows;
  const size_t stride = panel_bytes_i8(a.k);
  const int8_t* const head = a.panels + panel * stride;
  const int8_t* weights = head + kPanelHeadBytes;
  const float* x = a.input + row * a.k;
  const size_t k = a.k;
  Lanes16::Floats acc[kPanels][kRows];
  for (auto& sums : acc) std::fill_n(sums, kRows, Lanes16::fill(0.0f));
  const bool is_long = k > kLongestChain;
  LongSums<kSums * 16> long_sums;
  if (is_long) long_sums.clear();
  const auto end_block = [&] {
    float sums[kSums * 16];
    for (int i = 0; i < kSums; ++i) {
      Lanes16::Floats& sum = acc[i / kRows][i % kRows];
      Lanes16::store(sums + 16 * i, 16, sum);
      sum = Lanes16::fill(0.0f);
    }
    long_sums.add(sums);
  };
  Lanes16::Words fours[kPanels];
  const auto load = [&] {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const int8_t* from = weights + static_cast<size_t>(p) * stride;
      fours[p] = Lanes16::load_words(from);
      if constexpr (kPanels > 1) __builtin_prefetch(from + kPanels * stride, 0, 2);
    }
  };
  for (size_t group = 0;; ++group, x += 4, weights += 64) {
    if (is_long && group > 0 && group % (kSumBlock / 4) == 0 && group * 4 < k) end_block();
    if (group == k / 4) break;
    load();
    step<kRows, kPanels, 0>(x, k, fours, acc);
    step<kRows, kPanels, 1>(x, k, fours, acc);
    step<kRows, kPanels, 2>(x, k, fours, acc);
    step<kRows, kPanels, 3>(x, k, fours, acc);
  }
  if (k % 4 != 0) {
    load();
    step<kRows, kPanels, 0>(x, k, fours, acc);
    if (k % 4 > 1) step<kRows, kPanels, 1>(x, k, fours, acc);
    if (k % 4 > 2) step<kRows, kPanels, 2>(x, k, fours, acc);
  }
  if (is_long) {
    end_block();
    const float* total = long_sums.total();
    for (int i = 0; i < kSums; ++i) acc[i / kRows][i % kRows] = Lanes16::load(total + 16 * i);
  }
  for (int p = 0; p < kPanels; ++p) {
    const size_t column = (panel + static_cast<size_t>(p)) * 16, lanes = a.n - column;
    const int8_t* own = head + static_cast<size_t>(p) * stride;
    Lanes16::Floats bias = Lanes16::fill(0.0f);
    if (a.bias != nullptr) bias = Lanes16::load_some(a.bias + column, lanes);
    if (a.has_head_bias) bias = Lanes16::load(own);
    const Lanes16::Floats scale = Lanes16::load(own + 64);
    for (int r = 0; r < kRows; ++r) {
      Lanes16::store(a.output + (row + static_cast<size_t>(r)) * a.n + column, lanes,
                     Lanes16::fma(acc[p][r], scale, bias));
    }
  }
}

void multiply(const LinearF32Qc8w& a) noexcept {
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

void multiply_panels(const LinearF32& a) noexcept {
  multiply({a.input, reinterpret_cast<const int8_t*>(a.panels), nullptr, a.output, a.m, a.n, a.k, true});
}

}  // namespace

void ALCOVE_PER_ISA(linear_f32_qc8w)(const LinearF32Qc8w& a) noexcept { multiply(a); }
void ALCOVE_PER_ISA(linear_f32_qc8w_panels)(const LinearF32& a) noexcept { multiply_panels(a); }

}  // namespace alcove::kernels
