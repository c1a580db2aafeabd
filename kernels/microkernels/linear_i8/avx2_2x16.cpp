// AVX2 int8 products: bytes widened to 16 bits, then multiplied and added in pairs to 32 (exact, unlike the pair-add of
// bytes, which saturates).  2 rows x 1 panel: 8 accumulators.
#include <immintrin.h>

#include "kernels/simd/lanes16_avx2.h"
#include "kernels/microkernels/linear_i8/linear_i8.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

// Lanes 2c and 2c + 1 of `low` and `high` are halves of column c's sum; columns 0 to 7 come out in order.
inline __m256i add_halves(__m256i low, __m256i high) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xD8);
}

void store(const LinearI8& a, size_t row, size_t panel, const int8_t* head, const Lanes16::Words& acc,
           const Int8Range& range) {
  const size_t column = panel * 16;
  if (a.sums != nullptr) {
    auto* sums = reinterpret_cast<__m256i*>(a.sums + row * ((a.n + 15) / 16 * 16) + column);
    _mm256_storeu_si256(sums, acc.low);
    _mm256_storeu_si256(sums + 1, acc.high);
    return;
  }
  const Lanes16::Words biased = Lanes16::add(acc, Lanes16::load_words(head));
  const Lanes16::Floats v = Lanes16::multiply(Lanes16::to_floats(biased), Lanes16::load(head + 64));
  Lanes16::requantize_store(a.output + row * a.output_stride + column, a.n - column, v, range);
}

template <int kRows>
void tile(const LinearI8& a, size_t row, size_t panel, const Int8Range& range) {
  const int8_t* head = a.panels + panel * panel_bytes_i8(a.k);
  const int8_t* weights = head + kPanelHeadBytes;
  __m256i acc[kRows][4];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 4; ++v) acc[r][v] = _mm256_setzero_si256();
  }
  for (int part = 0; part < (a.k % 4 == 0 ? 1 : 2); ++part) {
    const GroupsOfFour<kRows> inputs(part, a.input + row * a.input_stride, a.input_stride, a.k);
    for (size_t group = 0; group < inputs.groups; ++group, weights += 64) {
      __m256i x[kRows];
      for (int r = 0; r < kRows; ++r) {
        x[r] = _mm256_cvtepi8_epi16(_mm_set1_epi32(inputs.at(r, group)));
      }
      for (int v = 0; v < 4; ++v) {
        const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + 16 * v)));
        for (int r = 0; r < kRows; ++r) acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(x[r], w));
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    store(a, row + r, panel, head, {add_halves(acc[r][0], acc[r][1]), add_halves(acc[r][2], acc[r][3])}, range);
  }
}

}  // namespace

void linear_i8_avx2_2x16(const LinearI8& a) noexcept {
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t panels = (a.n + 15) / 16;
  size_t row = 0;
  for (; row + 2 <= a.m; row += 2) {
    for (size_t panel = 0; panel < panels; ++panel) tile<2>(a, row, panel, range);
  }
  for (; row < a.m; ++row) {
    for (size_t panel = 0; panel < panels; ++panel) tile<1>(a, row, panel, range);
  }
}

}  // namespace alcove::kernels
