// AVX-512 int8 products with VNNI: inputs shifted to [0, 255], and 128 * sum of weights taken off the bias, once for all rows.
// Rows in tiles of up to 6 x 4 panels, as even as can be.
#include <immintrin.h>

#include <cstring>

#include "kernels/microkernels/linear_i8/linear_i8.h"
#include "kernels/simd/requantize_avx512.h"

namespace alcove::kernels {

namespace {

constexpr size_t kMostRows = 6;
constexpr size_t kMostPanels = 4;

// Some panels side by side.
struct Panels {
  size_t first;
  const int8_t* weights;
  size_t stride;
  __m512i start[kMostPanels];  // of sums of shifted inputs
};

using Tile = void (*)(const LinearI8&, size_t row, const Panels&, const Requantize64&);

template <int kRows, int kPanels>
void finish(const LinearI8& a, size_t row, const Panels& panels, const Requantize64& requantize,
            __m512i (&acc)[kRows * kPanels]) {
  constexpr int kSums = kRows * kPanels;
  const size_t column = panels.first * 16;
  if (a.sums != nullptr) {
    int32_t* sums = a.sums + row * ((a.n + 15) / 16 * 16) + column;
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i)
      _mm512_storeu_si512(sums + (i / kPanels) * ((a.n + 15) / 16 * 16) + (i % kPanels) * 16, acc[i]);
    return;
  }
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) {
    const int8_t* scales = panels.weights + static_cast<size_t>(i % kPanels) * panels.stride - 64;
    acc[i] = requantize.words(acc[i], _mm512_loadu_ps(scales));
  }
  int8_t* output = a.output + row * a.output_stride + column;
  const size_t lanes = a.n - column;
#pragma GCC unroll 8
  for (int i = 0; i < kSums; i += 4) {
    const auto at = [&](int j) { return acc[j < kSums ? j : kSums - 1]; };
    const __m512i bytes = requantize.rows(at(i), at(i + 1), at(i + 2), at(i + 3));
    if constexpr (kPanels == 4) {
      _mm512_mask_storeu_epi8(output, lanes >= 64 ? ~__mmask64{0} : (__mmask64{1} << lanes) - 1, bytes);
      output += a.output_stride;
    } else {
      const __m128i quarters[4] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                                   _mm512_extracti32x4_epi32(bytes, 2), _mm512_extracti32x4_epi32(bytes, 3)};
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const size_t beyond = static_cast<size_t>((i + q) % kPanels) * 16;
        int8_t* to = output + static_cast<size_t>((i + q) / kPanels) * a.output_stride + beyond;
        if (i + q < kSums) store_row(to, quarters[q], lanes - beyond);
      }
    }
  }
}

template <int kRows, int kPanels, bool kFetches = true>
void tile(const LinearI8& a, size_t row, const Panels& panels, const Requantize64& requantize) {
  const __m512i shift = _mm512_set1_epi8(-128);
  __m512i acc[kRows * kPanels];
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kPanels; ++i) acc[i] = panels.start[i % kPanels];
  __m512i excess[kPanels];  // of a single row: its weights are read once only
#pragma GCC unroll 4
  for (auto& sum : excess) sum = _mm512_setzero_si512();
  const int8_t* weights = panels.weights;
  // Weights come from memory, and no stream of a panel is long enough for the processor to see it coming: those of the next panels
  // are fetched meanwhile, by a single row all of them, their heads first, by several tiles of rows one each.
  const char* ahead = reinterpret_cast<const char*>(weights) + kPanels * panels.stride;
  for (int p = 0; p < kPanels && kRows == 1 && kFetches; ++p)
    _mm_prefetch(ahead + p * panels.stride - kPanelHeadBytes, _MM_HINT_T1);
  if (kRows > 1) ahead += row / kRows % kPanels * panels.stride;
  const int8_t* x = a.input + row * a.input_stride;
  size_t step = a.input_stride;
  const size_t whole = a.k / 4;
  int8_t rest[kRows][4] = {};
  for (int r = 0; r < kRows && a.k % 4 != 0; ++r)
    std::memcpy(rest[r], x + static_cast<size_t>(r) * step + whole * 4, a.k % 4);
  for (size_t group = 0; group < (a.k + 3) / 4; ++group, x += 4, weights += 64) {
    if (group == whole) {  // the last inputs, filled up with zeros
      x = rest[0];
      step = 4;
    }
    if (kRows > 1 && kFetches) _mm_prefetch(ahead + group * 64, _MM_HINT_T1);
    __m512i w[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      w[p] = _mm512_loadu_si512(weights + static_cast<size_t>(p) * panels.stride);
      if (kRows == 1) {
        excess[p] = _mm512_dpbusd_epi32(excess[p], shift, w[p]);
        if (kFetches) _mm_prefetch(ahead + group * 64 + p * panels.stride, _MM_HINT_T1);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, x + static_cast<size_t>(r) * step, 4);
      const __m512i shifted = _mm512_xor_si512(_mm512_set1_epi32(four), shift);
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) acc[r * kPanels + p] = _mm512_dpbusd_epi32(acc[r * kPanels + p], shifted, w[p]);
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    if (kRows == 1) acc[p] = _mm512_sub_epi32(acc[p], excess[p]);
  }
  finish<kRows, kPanels>(a, row, panels, requantize, acc);
}

// 128 * sum of weights of a panel.
__m512i compute_excess(const int8_t* weights, size_t groups) {
  const __m512i shift = _mm512_set1_epi8(-128);
  __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
  for (size_t i = 0; i + 2 <= groups; i += 2) {
    even = _mm512_dpbusd_epi32(even, shift, _mm512_loadu_si512(weights + i * 64));
    odd = _mm512_dpbusd_epi32(odd, shift, _mm512_loadu_si512(weights + i * 64 + 64));
  }
  if (groups % 2 != 0) odd = _mm512_dpbusd_epi32(odd, shift, _mm512_loadu_si512(weights + groups * 64 - 64));
  return _mm512_add_epi32(even, odd);
}

}  // namespace

void linear_i8_avx512_vnni_6x64(const LinearI8& a) noexcept {
  static constexpr Tile kNear[] = {tile<1, 1, false>, tile<1, 2, false>, tile<1, 3, false>, tile<1, 4, false>};
  static constexpr Tile kTiles[][kMostRows] = {
      {tile<1, 1>, tile<2, 1>, tile<3, 1>, tile<4, 1>, tile<5, 1>, tile<6, 1>},
      {tile<1, 2>, tile<2, 2>, tile<3, 2>, tile<4, 2>, tile<5, 2>, tile<6, 2>},
      {tile<1, 3>, tile<2, 3>, tile<3, 3>, tile<4, 3>, tile<5, 3>, tile<6, 3>},
      {tile<1, 4>, tile<2, 4>, tile<3, 4>, tile<4, 4>, tile<5, 4>, tile<6, 4>}};
  const Requantize64 requantize(int8_range(a.low, a.high, a.zero_point));
  const size_t count = (a.m + kMostRows - 1) / kMostRows;
  const size_t few = a.m / count, longer = a.m % count;
  Panels panels;
  panels.stride = panel_bytes_i8(a.k);
  const size_t all = (a.n + 15) / 16;
  for (panels.first = 0; panels.first < all;) {
    const size_t side_by_side = all - panels.first < kMostPanels ? all - panels.first : kMostPanels;
    panels.weights = a.panels + panels.first * panels.stride + kPanelHeadBytes;
    for (size_t p = 0; p < side_by_side; ++p) {
      const int8_t* weights = panels.weights + p * panels.stride;
      const __m512i bias = a.sums == nullptr ? _mm512_loadu_si512(weights - kPanelHeadBytes) : _mm512_setzero_si512();
      panels.start[p] = a.m == 1 ? bias : _mm512_sub_epi32(bias, compute_excess(weights, (a.k + 3) / 4));
    }
    const Tile* tiles = kTiles[side_by_side - 1];
    size_t row = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t here = few + (i < longer ? 1 : 0);
      (here == 1 && !a.is_cold ? kNear[side_by_side - 1] : tiles[here - 1])(a, row, panels, requantize);
      row += here;
    }
    panels.first += side_by_side;
  }
}

}  // namespace alcove::kernels
