// The loops of linear_f32_qc8w, compiled once for each instruction set.
#include "kernels/microkernels/linear_f32_qc8w/linear_f32_qc8w.h"
#include "kernels/long_sum.h"
#include "kernels/requantize.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

template <int kRows, int kByte>
void step(const float* x, size_t k, const Lanes16::Words& fours, Lanes16::Floats (&acc)[kRows]) noexcept {
  const Lanes16::Floats w = Lanes16::byte<kByte>(fours);
  for (int r = 0; r < kRows; ++r)
    acc[r] = Lanes16::fma(Lanes16::fill(x[static_cast<size_t>(r) * k + kByte]), w, acc[r]);
}

// Weights are widened once for kRows rows.
template <int kRows>
void tile(const LinearF32Qc8w& a, size_t row, size_t panel) noexcept {
  const int8_t* head = a.panels + panel * panel_bytes_i8(a.k);
  const int8_t* weights = head + kPanelHeadBytes;
  const float* x = a.input + row * a.k;
  const size_t k = a.k;
  Lanes16::Floats acc[kRows];
  for (int r = 0; r < kRows; ++r) acc[r] = Lanes16::fill(0.0f);
  const bool is_long = k > kLongestChain;
  LongSums<kRows * 16> long_sums;
  if (is_long) long_sums.clear();
  const auto end_block = [&] {
    float sums[kRows * 16];
    for (int r = 0; r < kRows; ++r) {
      Lanes16::store(sums + 16 * r, 16, acc[r]);
      acc[r] = Lanes16::fill(0.0f);
    }
    long_sums.add(sums);
  };
  for (size_t group = 0;; ++group, x += 4, weights += 64) {
    if (is_long && group > 0 && group % (kSumBlock / 4) == 0 && group * 4 < k) end_block();
    if (group == k / 4) break;
    const Lanes16::Words fours = Lanes16::load_words(weights);
    step<kRows, 0>(x, k, fours, acc);
    step<kRows, 1>(x, k, fours, acc);
    step<kRows, 2>(x, k, fours, acc);
    step<kRows, 3>(x, k, fours, acc);
  }
  if (k % 4 != 0) {
    const Lanes16::Words fours = Lanes16::load_words(weights);
    step<kRows, 0>(x, k, fours, acc);
    if (k % 4 > 1) step<kRows, 1>(x, k, fours, acc);
    if (k % 4 > 2) step<kRows, 2>(x, k, fours, acc);
  }
  if (is_long) {
    end_block();
    const float* total = long_sums.total();
    for (int r = 0; r < kRows; ++r) acc[r] = Lanes16::load(total + 16 * r);
  }
  const size_t lanes = a.n - panel * 16;
  Lanes16::Floats bias = Lanes16::fill(0.0f);
  if (a.bias != nullptr) bias = Lanes16::load_some(a.bias + panel * 16, lanes);
  if (a.has_head_bias) bias = Lanes16::load(head);
  const Lanes16::Floats scale = Lanes16::load(head + 64);
  for (int r = 0; r < kRows; ++r) {
    Lanes16::store(a.output + (row + static_cast<size_t>(r)) * a.n + panel * 16, lanes,
                   Lanes16::fma(acc[r], scale, bias));
  }
}

void multiply(const LinearF32Qc8w& a) noexcept {
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) {
    for (size_t panel = 0; panel * 16 < a.n; ++panel) tile<4>(a, row, panel);
  }
  for (; row < a.m; ++row) {
    for (size_t panel = 0; panel * 16 < a.n; ++panel) tile<1>(a, row, panel);
  }
}

void multiply_panels(const LinearF32& a) noexcept {
  multiply({a.input, reinterpret_cast<const int8_t*>(a.panels), nullptr, a.output, a.m, a.n, a.k, true});
}

}  // namespace

void ALCOVE_PER_ISA(linear_f32_qc8w)(const LinearF32Qc8w& a) noexcept { multiply(a); }
void ALCOVE_PER_ISA(linear_f32_qc8w_panels)(const LinearF32& a) noexcept { multiply_panels(a); }

}  // namespace alcove::kernels
