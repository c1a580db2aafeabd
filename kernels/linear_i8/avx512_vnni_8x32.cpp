// AVX-512 int8 products with VNNI: inputs shifted to [0, 255], and 128 * sum of weights taken off again (one more product for
// each tile).  Rows in tiles of up to 8 x 2 panels, as even as can be; a single row x 4 panels.
#include <cstring>

#include "kernels/linear_i8/avx512_tiles.h"

namespace alcove::kernels {

namespace {

struct Vnni {
  template <int kRows, int kPanels>
  static void tile(const LinearI8& a, size_t row, size_t panel, const Int8Range& range) {
    const size_t stride = panel_bytes_i8(a.k);
    const int8_t* weights = a.panels + panel * stride + kPanelHeadBytes;
    const __m512i shift = _mm512_set1_epi8(-128);
    __m512i acc[kRows][kPanels], excess[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      excess[p] = _mm512_setzero_si512();
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) acc[r][p] = _mm512_setzero_si512();
    }
    const int8_t* x = a.input + row * a.input_stride;
    size_t step = a.input_stride;
    const size_t whole = a.k / 4;
    int8_t rest[kRows][4] = {};
    for (int r = 0; r < kRows && a.k % 4 != 0; ++r) std::memcpy(rest[r], x + static_cast<size_t>(r) * step + whole * 4, a.k % 4);
    for (size_t group = 0; group < (a.k + 3) / 4; ++group, x += 4, weights += 64) {
      if (group == whole) {  // the last inputs, filled up with zeros
        x = rest[0];
        step = 4;
      }
      __m512i w[kPanels];
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        w[p] = _mm512_loadu_si512(weights + static_cast<size_t>(p) * stride);
        excess[p] = _mm512_dpbusd_epi32(excess[p], shift, w[p]);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        std::memcpy(&four, x + static_cast<size_t>(r) * step, 4);
        const __m512i shifted = _mm512_xor_si512(_mm512_set1_epi32(four), shift);
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_dpbusd_epi32(acc[r][p], shifted, w[p]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        store(a, row + static_cast<size_t>(r), panel + static_cast<size_t>(p), _mm512_sub_epi32(acc[r][p], excess[p]), range);
      }
    }
  }
};

using Rows = void (*)(const LinearI8&, size_t row, const Int8Range&);

}  // namespace

void linear_i8_avx512_vnni_8x32(const LinearI8& a) noexcept {
  static constexpr Rows kRows[] = {rows<Vnni, 1, 4>, rows<Vnni, 2, 2>, rows<Vnni, 3, 2>, rows<Vnni, 4, 2>,
                                   rows<Vnni, 5, 2>, rows<Vnni, 6, 2>, rows<Vnni, 7, 2>, rows<Vnni, 8, 2>};
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t count = (a.m + 7) / 8;
  const size_t few = a.m / count, longer = a.m % count;
  size_t row = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t here = few + (i < longer ? 1 : 0);
    kRows[here - 1](a, row, range);
    row += here;
  }
}

}  // namespace alcove::kernels
