// AVX-512 linear: 4 rows x 2 panels or, for the rows that remain (mostly the only one), 1 row x 8 panels, so that 8
// accumulators hide the latency of the multiply-add.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/linear/linear.h"

namespace alcove::kernels {

namespace {

// Residual and bounds.  max and min give their second operand where one is a NaN or both are zeros.
inline void store16(const LinearF32& a, size_t at, size_t columns, __m512 v) {
  const auto mask = static_cast<__mmask16>(columns >= 16 ? 0xFFFFu : (1u << columns) - 1u);
  if (a.residual != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, a.residual + at));
  v = _mm512_min_ps(_mm512_set1_ps(a.high), _mm512_max_ps(_mm512_set1_ps(a.low), v));
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
  _mm512_mask_storeu_ps(a.output + at, mask, v);
}

template <int kRows, int kPanels>
void tile(const LinearF32& a, size_t row, size_t panel) {
  const size_t stride = (a.k + 1) * 16;
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const float* weights = a.panels + panel * stride;
  __m512 acc[kRows][kPanels];
  for (int p = 0; p < kPanels; ++p) {
    for (int r = 0; r < kRows; ++r) acc[r][p] = _mm512_loadu_ps(weights + p * stride);
  }
  for (size_t k = 0; k < a.k; ++k) {
    const float* line = weights + (k + 1) * 16;
    __m512 w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = _mm512_loadu_ps(line + p * stride);
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = _mm512_set1_ps(a.input[(row + r) * input_stride + k]);
      for (int p = 0; p < kPanels; ++p) acc[r][p] = _mm512_fmadd_ps(x, w[p], acc[r][p]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      const size_t column = (panel + p) * 16;
      store16(a, (row + r) * output_stride + column, a.n - column, acc[r][p]);
    }
  }
}

}  // namespace

void linear_f32_avx512_4x32(const LinearF32& a) noexcept {
  const size_t panels = (a.n + 15) / 16;
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) {
    size_t panel = 0;
    for (; panel + 2 <= panels; panel += 2) tile<4, 2>(a, row, panel);
    for (; panel < panels; ++panel) tile<4, 1>(a, row, panel);
  }
  for (; row < a.m; ++row) {
    size_t panel = 0;
    for (; panel + 8 <= panels; panel += 8) tile<1, 8>(a, row, panel);
    for (; panel + 4 <= panels; panel += 4) tile<1, 4>(a, row, panel);
    for (; panel + 2 <= panels; panel += 2) tile<1, 2>(a, row, panel);
    for (; panel < panels; ++panel) tile<1, 1>(a, row, panel);
  }
}

}  // namespace alcove::kernels
