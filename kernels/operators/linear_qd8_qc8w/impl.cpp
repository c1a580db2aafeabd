// The loops around the int8 products, compiled once for each instruction set.
#include <bit>

#include "kernels/canonical.h"
#include "kernels/operators/linear_qd8_qc8w/linear_qd8_qc8w.h"
#include "kernels/requantize.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

struct QuantizedRow {
  float scale;  // NaN: the row is not finite
  uint32_t zero;
};

QuantizedRow quantize_row(const float* x, size_t k, int8_t* q) noexcept {
  constexpr uint32_t kInfinity = 0x7F800000u;
  uint32_t greatest = 0;  // of the bits without the sign: ordered like the magnitudes, NaN above infinity
  float low = 0.0f, high = 0.0f;
  for (size_t i = 0; i < k; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFu;
    greatest = bits > greatest ? bits : greatest;
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  if (greatest >= kInfinity) {
    std::memset(q, 0, k);
    return {std::bit_cast<float>(kCanonicalNanBits), 0};
  }
  float scale = high / 255.0f - low / 255.0f;
  if (scale < 0x1p-100f) scale = 1.0f;
  const float inverse = 1.0f / scale;
  const int8_t zero = requantize(-128.0f - low * inverse, int8_range(-128, 127, 0));
  const Int8Range range = int8_range(-128, 127, zero);
  for (size_t i = 0; i < k; ++i) q[i] = requantize(x[i] * inverse, range);
  return {scale, static_cast<uint32_t>(static_cast<int32_t>(zero))};
}

void finish(const LinearQd8Qc8w& a, const QuantizedRow& row, const int32_t* sums, size_t column,
            float* output) noexcept {
  const int8_t* head = a.panels + column / 16 * panel_bytes_i8(a.k);
  uint32_t weight_sums[16];
  float scales[16];
  std::memcpy(weight_sums, head, 64);
  std::memcpy(scales, head + 64, 64);
  float y[16];
  for (size_t c = 0; c < 16; ++c) {
    const auto acc = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) - row.zero * weight_sums[c]);
    y[c] = static_cast<float>(acc) * (row.scale * scales[c]);
  }
  const size_t lanes = a.n - column < 16 ? a.n - column : 16;
  for (size_t c = 0; c < lanes; ++c) output[c] = canonical(a.bias != nullptr ? y[c] + a.bias[column + c] : y[c]);
}

void multiply(const LinearQd8Qc8w& a) noexcept {
  auto* sums = static_cast<int32_t*>(a.scratch);
  auto* quantized = reinterpret_cast<int8_t*>(sums + kDynamicRows * kDynamicOutputs);
  for (size_t first = 0; first < a.m; first += kDynamicRows) {
    const size_t rows = a.m - first < kDynamicRows ? a.m - first : kDynamicRows;
    QuantizedRow row[kDynamicRows];
    for (size_t r = 0; r < rows; ++r) row[r] = quantize_row(a.input + (first + r) * a.k, a.k, quantized + r * a.k);
    for (size_t column = 0; column < a.n; column += kDynamicOutputs) {
      const size_t columns = a.n - column < kDynamicOutputs ? a.n - column : kDynamicOutputs;
      const int8_t* panels = a.panels + column / 16 * panel_bytes_i8(a.k);
      a.linear({quantized, a.k, panels, nullptr, 0, sums, rows, columns, a.k, 0, 0, 0});
      const size_t width = (columns + 15) / 16 * 16;
      for (size_t r = 0; r < rows; ++r) {
        float* output = a.output + (first + r) * a.n + column;
        for (size_t c = 0; c < columns; c += 16) finish(a, row[r], sums + r * width + c, column + c, output + c);
      }
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(linear_qd8_qc8w)(const LinearQd8Qc8w& a) noexcept { multiply(a); }

}  // namespace alcove::kernels
