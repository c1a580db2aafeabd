// AVX-512 int8 products without VNNI: bytes widened to 16 bits, then multiplied and added in pairs to 32.  4 rows x 2 panels;
// a single row x 4 panels.
#include "kernels/microkernels/linear_i8/avx512_tiles.h"

namespace alcove::kernels {

namespace {

struct Pairs {
  template <int kRows, int kPanels>
  static void tile(const LinearI8& a, size_t row, size_t panel, const Int8Range& range) {
    const size_t stride = panel_bytes_i8(a.k);
    const int8_t* weights = a.panels + panel * stride + kPanelHeadBytes;
    __m512i acc[kRows][kPanels][2];
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < kRows; ++r) acc[r][p][0] = acc[r][p][1] = _mm512_setzero_si512();
    }
    for (int part = 0; part < (a.k % 4 == 0 ? 1 : 2); ++part) {
      const GroupsOfFour<kRows> inputs(part, a.input + row * a.input_stride, a.input_stride, a.k);
      for (size_t group = 0; group < inputs.groups; ++group, weights += 64) {
        __m512i w[kPanels][2];
        for (int p = 0; p < kPanels; ++p) {
          for (int half = 0; half < 2; ++half) {
            const auto* bytes = reinterpret_cast<const __m256i*>(weights + p * stride + 32 * half);
            w[p][half] = _mm512_cvtepi8_epi16(_mm256_loadu_si256(bytes));
          }
        }
        for (int r = 0; r < kRows; ++r) {
          const __m512i x = _mm512_cvtepi8_epi16(_mm256_set1_epi32(inputs.at(r, group)));
          for (int p = 0; p < kPanels; ++p) {
            for (int half = 0; half < 2; ++half) {
              acc[r][p][half] = _mm512_add_epi32(acc[r][p][half], _mm512_madd_epi16(x, w[p][half]));
            }
          }
        }
      }
    }
    // Lanes 2c and 2c + 1 are halves of column c's sum.
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPanels; ++p) {
        const __m512i low = acc[r][p][0], high = acc[r][p][1];
        const __m512i sum =
            _mm512_add_epi32(_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high));
        store(a, row + r, panel + p, sum, range);
      }
    }
  }
};

}  // namespace

void linear_i8_avx512_4x32(const LinearI8& a) noexcept {
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) rows<Pairs, 4, 2>(a, row, range);
  for (; row < a.m; ++row) rows<Pairs, 1, 4>(a, row, range);
}

}  // namespace alcove::kernels
