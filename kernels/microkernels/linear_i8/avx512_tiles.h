// What the tiles of int8 products in 512 bits share: where a panel's sums go, and the walk over panels.  Everything here has
// internal linkage, so that no copy for one instruction set is chosen for all.
#pragma once

#include <immintrin.h>

#include "kernels/simd/lanes16_avx512.h"
#include "kernels/microkernels/linear_i8/linear_i8.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

inline void store(const LinearI8& a, size_t row, size_t panel, __m512i acc, const Int8Range& range) {
  const size_t column = panel * 16;
  if (a.sums != nullptr) {
    _mm512_storeu_si512(a.sums + row * ((a.n + 15) / 16 * 16) + column, acc);
    return;
  }
  const int8_t* head = a.panels + panel * panel_bytes_i8(a.k);
  const __m512 v =
      Lanes16::multiply(Lanes16::to_floats(Lanes16::add(acc, Lanes16::load_words(head))), Lanes16::load(head + 64));
  Lanes16::requantize_store(a.output + row * a.output_stride + column, a.n - column, v, range);
}

template <class Way, int kRows, int kMostPanels>
void rows(const LinearI8& a, size_t row, const Int8Range& range) {
  const size_t panels = (a.n + 15) / 16;
  size_t panel = 0;
  for (; panel + kMostPanels <= panels; panel += kMostPanels)
    Way::template tile<kRows, kMostPanels>(a, row, panel, range);
  for (; panel < panels; ++panel) Way::template tile<kRows, 1>(a, row, panel, range);
}

}  // namespace

}  // namespace alcove::kernels
