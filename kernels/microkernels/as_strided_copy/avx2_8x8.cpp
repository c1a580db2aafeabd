// Transposes 8 x 8 elements of 4 bytes at a time: halves of rows are loaded into the places that they need, which spares half of the
// shuffles.
#include <immintrin.h>

#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"

namespace alcove::kernels {

namespace {

// Rows 0 to 3 and 4 to 7 of 4 columns, to 4 rows of 8.
void transpose_half(const uint8_t* from, ptrdiff_t from_step, uint8_t* to, ptrdiff_t to_step) noexcept {
  const auto load = [&](ptrdiff_t row) {
    const auto at = [&](ptrdiff_t r) { return reinterpret_cast<const float*>(from + r * from_step); };
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at(row))), _mm_loadu_ps(at(row + 4)), 1);
  };
  const __m256 r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
  const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
  const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
  const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
  const auto store = [&](ptrdiff_t column, __m256d v) {
    _mm256_storeu_pd(reinterpret_cast<double*>(to + column * to_step), v);
  };
  store(0, _mm256_unpacklo_pd(low01, low23));
  store(1, _mm256_unpackhi_pd(low01, low23));
  store(2, _mm256_unpacklo_pd(high01, high23));
  store(3, _mm256_unpackhi_pd(high01, high23));
}

void transpose_block_8x8(const TransposeBlock& b) noexcept {
  const auto at = [](size_t i, ptrdiff_t step) { return static_cast<ptrdiff_t>(i) * step; };
  const size_t rows = b.rows / 8 * 8, columns = b.columns / 4 * 4;
  for (size_t column = 0; column < columns; column += 4) {
    for (size_t row = 0; row < rows; row += 8) {
      transpose_half(b.from + at(row, b.from_step) + at(column, 4), b.from_step,
                     b.to + at(column, b.to_step) + at(row, 4), b.to_step);
    }
  }
  const uint8_t* below = b.from + at(rows, b.from_step);
  if (rows < b.rows) transpose_block({below, b.from_step, b.to + at(rows, 4), b.to_step, b.rows - rows, b.columns});
  if (columns < b.columns && rows > 0) {
    transpose_block(
        {b.from + at(columns, 4), b.from_step, b.to + at(columns, b.to_step), b.to_step, rows, b.columns - columns});
  }
}

}  // namespace

void as_strided_copy_avx2(const AsStridedCopy& a) noexcept { copy_strided(a, transpose_block_8x8); }

}  // namespace alcove::kernels
