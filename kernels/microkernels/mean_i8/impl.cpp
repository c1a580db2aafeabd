// The loop of mean_i8, compiled once for each instruction set: blocks of 64 columns, so that the sums stay in registers.  Of
// fewer columns several rows are one block; sums of integers are exact in any order.
#include "kernels/microkernels/mean_i8/mean_i8.h"
#include "kernels/requantize.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

constexpr size_t kColumns = 64;

// sums[c] += each of `rows` rows of `stride`, the first `columns` of them.
void add_rows(const int8_t* row, size_t rows, size_t stride, size_t columns, int32_t (&sums)[kColumns]) noexcept {
  for (size_t i = 0; i < rows; ++i, row += stride) {
    if (columns == kColumns) {
      for (size_t c = 0; c < kColumns; ++c) sums[c] += row[c];
    } else {
      for (size_t c = 0; c < columns; ++c) sums[c] += row[c];
    }
  }
}

void mean(const MeanI8& a) noexcept {
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const int32_t offset = static_cast<int32_t>(a.reduced) * a.input_zero;
  const size_t together = kColumns % a.inner == 0 ? kColumns / a.inner : 1;  // rows in a block
  for (size_t outer = 0; outer < a.outer; ++outer) {
    const int8_t* rows = a.input + outer * a.reduced * a.inner;
    for (size_t first = 0; first < a.inner; first += kColumns) {
      const size_t columns = a.inner - first < kColumns ? a.inner - first : kColumns;
      int32_t sums[kColumns] = {};
      if (together > 1) {
        const size_t blocks = a.reduced / together;
        add_rows(rows, blocks, kColumns, kColumns, sums);
        for (size_t c = a.inner; c < kColumns; ++c) sums[c % a.inner] += sums[c];
        add_rows(rows + blocks * kColumns, a.reduced % together, a.inner, a.inner, sums);
      } else {
        add_rows(rows + first, a.reduced, a.inner, columns, sums);
      }
      int8_t* output = a.output + outer * a.inner + first;
      for (size_t c = 0; c < columns; ++c)
        output[c] = requantize(static_cast<float>(sums[c] - offset) * a.ratio, range);
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(mean_i8)(const MeanI8& a) noexcept { mean(a); }

}  // namespace alcove::kernels
