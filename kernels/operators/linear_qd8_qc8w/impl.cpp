// The loops around the int8 products, compiled once for each instruction set.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/canonical.h"
#include "kernels/operators/linear_qd8_qc8w/linear_qd8_qc8w.h"
#include "kernels/requantize.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

struct QuantizedRow {
  float scale;  // NaN: the row is not finite
  int32_t zero;
};

QuantizedRow quantize_row(const float* x, size_t k, int8_t* q) noexcept {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Lanes16::Floats none = Lanes16::fill(0.0f), least = Lanes16::fill(-kInfinity), most = Lanes16::fill(kInfinity);
  Lanes16::Floats low = none, high = none, wrong = none;  // NaN where a number was not finite
  for (size_t i = 0; i < k; i += 16) {
    const Lanes16::Floats v = k - i < 16 ? Lanes16::load_some(x + i, k - i) : Lanes16::load(x + i);
    low = Lanes16::clamp(v, least, low);
    high = Lanes16::clamp(v, high, most);
    wrong = Lanes16::fma(v, none, wrong);
  }
  if (std::isnan(Lanes16::sum(wrong))) {
    std::memset(q, 0, k);
    return {std::bit_cast<float>(kCanonicalNanBits), 0};
  }
  float lows[16], highs[16];
  Lanes16::store(lows, 16, low);
  Lanes16::store(highs, 16, high);
  for (size_t i = 1; i < 16; ++i) {
    lows[0] = lows[i] < lows[0] ? lows[i] : lows[0];
    highs[0] = highs[i] > highs[0] ? highs[i] : highs[0];
  }
  float scale = highs[0] / 255.0f - lows[0] / 255.0f;
  if (scale < 0x1p-100f) scale = 1.0f;
  const float inverse = 1.0f / scale;
  const int8_t zero = requantize(-128.0f - lows[0] * inverse, int8_range(-128, 127, 0));
  const Int8Range range = int8_range(-128, 127, zero);
  const Lanes16::Floats factor = Lanes16::fill(inverse);
  const size_t whole = k / 16 * 16;
  for (size_t i = 0; i < whole; i += 16)
    Lanes16::requantize_store(q + i, 16, Lanes16::multiply(Lanes16::load(x + i), factor), range);
  for (size_t i = whole; i < k; ++i) q[i] = requantize(x[i] * inverse, range);
  return {scale, zero};
}

// Outputs of a panel from their sums.
void finish(const LinearQd8Qc8w& a, const QuantizedRow* rows, size_t count, const int32_t* sums, size_t width,
            size_t column, float* output) noexcept {
  const int8_t* head = a.panels + column / 16 * panel_bytes_i8(a.k);
  const Lanes16::Words weights = Lanes16::load_words(head);
  const Lanes16::Floats scales = Lanes16::load(head + 64);
  const size_t lanes = a.n - column < 16 ? a.n - column : 16;
  const Lanes16::Floats bias = a.bias == nullptr ? Lanes16::fill(0.0f) : Lanes16::load_some(a.bias + column, lanes);
  for (size_t r = 0; r < count; ++r, sums += width, output += a.n) {
    const Lanes16::Words excess = Lanes16::multiply(weights, Lanes16::fill_words(-rows[r].zero));
    const Lanes16::Floats acc = Lanes16::to_floats(Lanes16::add(Lanes16::load_words(sums), excess));
    const Lanes16::Floats y = Lanes16::multiply(acc, Lanes16::multiply(Lanes16::fill(rows[r].scale), scales));
    Lanes16::store(output, lanes, a.bias == nullptr ? y : Lanes16::add(y, bias));
  }
}

void multiply(const LinearQd8Qc8w& a) noexcept {
  // Many rows: as many as the scratch holds beside the sums of a few panels, so that weights are read once for all of them.
  const size_t room = a.scratch_bytes / dynamic_row_bytes(a.k);
  const size_t most = room < kDynamicRows ? kDynamicRows : room < kMostDynamicRows ? room : kMostDynamicRows;
  const size_t blocks = (a.m + most - 1) / most, few = a.m / blocks, longer = a.m % blocks;
  const size_t outputs = few + (longer > 0 ? 1 : 0) > kDynamicRows ? kFewDynamicOutputs : kDynamicOutputs;
  auto* sums = static_cast<int32_t*>(a.scratch);
  size_t first = 0;
  for (size_t block = 0; block < blocks; ++block) {
    const size_t rows = few + (block < longer ? 1 : 0);
    auto* quantized = reinterpret_cast<int8_t*>(sums + rows * outputs);
    QuantizedRow row[kMostDynamicRows];
    for (size_t r = 0; r < rows; ++r) row[r] = quantize_row(a.input + (first + r) * a.k, a.k, quantized + r * a.k);
    for (size_t column = 0; column < a.n; column += outputs) {
      const size_t columns = a.n - column < outputs ? a.n - column : outputs;
      const int8_t* panels = a.panels + column / 16 * panel_bytes_i8(a.k);
      a.linear({quantized, a.k, panels, nullptr, 0, sums, rows, columns, a.k, 0, 0, 0, a.is_cold});
      const size_t width = (columns + 15) / 16 * 16;
      for (size_t c = 0; c < columns; c += 16)
        finish(a, row, rows, sums + c, width, column + c, a.output + first * a.n + column + c);
    }
    first += rows;
  }
}

}  // namespace

void ALCOVE_PER_ISA(linear_qd8_qc8w)(const LinearQd8Qc8w& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
