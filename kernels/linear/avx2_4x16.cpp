// AVX2 linear: 4 rows x 1 panel or, for the rows that remain (mostly the only one), 1 row x 4 panels, so that 8
// accumulators hide the latency of the multiply-add.
#include <immintrin.h>

#include "kernels/canonical.h"
#include "kernels/linear/linear.h"

namespace alcove::kernels {

namespace {

inline __m256 canonical8(__m256 v) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNanBits)));
  return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

// Residual and bounds.  max and min give their second operand where one is a NaN or both are zeros.
inline __m256 finish8(const LinearF32& a, __m256 v, const float* residual) {
  if (residual != nullptr) v = _mm256_add_ps(v, _mm256_loadu_ps(residual));
  v = _mm256_min_ps(_mm256_set1_ps(a.high), _mm256_max_ps(_mm256_set1_ps(a.low), v));
  return canonical8(v);
}

inline void store16(const LinearF32& a, size_t at, size_t columns, __m256 low, __m256 high) {
  const float* residual = a.residual != nullptr ? a.residual + at : nullptr;
  float* output = a.output + at;
  if (columns >= 16) {
    _mm256_storeu_ps(output, finish8(a, low, residual));
    _mm256_storeu_ps(output + 8, finish8(a, high, residual != nullptr ? residual + 8 : nullptr));
    return;
  }
  alignas(32) float lanes[16];
  alignas(32) float padded[16] = {};
  if (residual != nullptr) {
    for (size_t c = 0; c < columns; ++c) padded[c] = residual[c];
    residual = padded;
  }
  _mm256_store_ps(lanes, finish8(a, low, residual));
  _mm256_store_ps(lanes + 8, finish8(a, high, residual != nullptr ? residual + 8 : nullptr));
  for (size_t c = 0; c < columns; ++c) output[c] = lanes[c];
}

template <int kRows, int kPanels>
void tile(const LinearF32& a, size_t row, size_t panel) {
  const size_t stride = (a.k + 1) * 16;
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const float* weights = a.panels + panel * stride;
  __m256 acc[kRows][kPanels][2];
  for (int p = 0; p < kPanels; ++p) {
    for (int r = 0; r < kRows; ++r) {
      acc[r][p][0] = _mm256_loadu_ps(weights + p * stride);
      acc[r][p][1] = _mm256_loadu_ps(weights + p * stride + 8);
    }
  }
  for (size_t k = 0; k < a.k; ++k) {
    const float* line = weights + (k + 1) * 16;
    for (int p = 0; p < kPanels; ++p) {
      const __m256 low = _mm256_loadu_ps(line + p * stride);
      const __m256 high = _mm256_loadu_ps(line + p * stride + 8);
      for (int r = 0; r < kRows; ++r) {
        const __m256 x = _mm256_broadcast_ss(a.input + (row + r) * input_stride + k);
        acc[r][p][0] = _mm256_fmadd_ps(x, low, acc[r][p][0]);
        acc[r][p][1] = _mm256_fmadd_ps(x, high, acc[r][p][1]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      const size_t column = (panel + p) * 16;
      store16(a, (row + r) * output_stride + column, a.n - column, acc[r][p][0], acc[r][p][1]);
    }
  }
}

}  // namespace

void linear_f32_avx2_4x16(const LinearF32& a) noexcept {
  const size_t panels = (a.n + 15) / 16;
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) {
    for (size_t panel = 0; panel < panels; ++panel) tile<4, 1>(a, row, panel);
  }
  for (; row < a.m; ++row) {
    size_t panel = 0;
    for (; panel + 4 <= panels; panel += 4) tile<1, 4>(a, row, panel);
    for (; panel + 2 <= panels; panel += 2) tile<1, 2>(a, row, panel);
    for (; panel < panels; ++panel) tile<1, 1>(a, row, panel);
  }
}

}  // namespace alcove::kernels
