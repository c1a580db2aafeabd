// The loop of mean_i8, compiled once for each instruction set: blocks of 64 columns, so that the sums stay in registers.
#pragma once

#include "kernels/mean_i8/mean_i8.h"
#include "kernels/requantise.h"

namespace alcove::kernels {

namespace {

void mean(const MeanI8& a) noexcept {
  constexpr size_t kColumns = 64;
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const int32_t offset = static_cast<int32_t>(a.reduced) * a.input_zero;
  for (size_t outer = 0; outer < a.outer; ++outer) {
    for (size_t first = 0; first < a.inner; first += kColumns) {
      const size_t columns = a.inner - first < kColumns ? a.inner - first : kColumns;
      const int8_t* row = a.input + outer * a.reduced * a.inner + first;
      int32_t sums[kColumns] = {};
      for (size_t i = 0; i < a.reduced; ++i, row += a.inner) {
        if (columns == kColumns) {
          for (size_t c = 0; c < kColumns; ++c) sums[c] += row[c];
        } else {
          for (size_t c = 0; c < columns; ++c) sums[c] += row[c];
        }
      }
      int8_t* output = a.output + outer * a.inner + first;
      for (size_t c = 0; c < columns; ++c) output[c] = requantise(static_cast<float>(sums[c] - offset) * a.ratio, range);
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
