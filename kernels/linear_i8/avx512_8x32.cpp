// AVX-512 int8 products: with VNNI, inputs shifted to [0, 255] and 128 * sum of weights taken off again (one more product
// for each tile); without, bytes widened to 16 bits.  Both are exact, so the machine decides how and not what.
#include <immintrin.h>

#include <cstring>

#include "kernels/lanes16_avx512.h"
#include "kernels/linear_i8/linear_i8.h"
#include "kernels/requantise.h"

// Of the functions that may use VNNI; the file's own options don't have it.
#define ALCOVE_VNNI __attribute__((target("avx512vnni")))

namespace alcove::kernels {

namespace {

inline void store(const LinearI8& a, size_t row, size_t panel, __m512i acc, const Int8Range& range) {
  const size_t column = panel * 16;
  if (a.sums != nullptr) {
    _mm512_storeu_si512(a.sums + row * ((a.n + 15) / 16 * 16) + column, acc);
    return;
  }
  const int8_t* head = a.panels + panel * panel_bytes_i8(a.k);
  const __m512 v = Lanes16::multiply(Lanes16::to_floats(Lanes16::add(acc, Lanes16::load_words(head))), Lanes16::load(head + 64));
  Lanes16::requantise_store(a.output + row * a.output_stride + column, a.n - column, v, range);
}

struct Vnni {
  template <int kRows, int kPanels>
  ALCOVE_VNNI static void tile(const LinearI8& a, size_t row, size_t panel, const Int8Range& range) {
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

template <class Way, int kRows, int kMostPanels>
void rows(const LinearI8& a, size_t row, const Int8Range& range) {
  const size_t panels = (a.n + 15) / 16;
  size_t panel = 0;
  for (; panel + kMostPanels <= panels; panel += kMostPanels) Way::template tile<kRows, kMostPanels>(a, row, panel, range);
  for (; panel < panels; ++panel) Way::template tile<kRows, 1>(a, row, panel, range);
}

using Rows = void (*)(const LinearI8&, size_t row, const Int8Range&);

// Rows in tiles of up to 8, as even as can be.
void multiply_evenly(const LinearI8& a) {
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

void multiply_pairs(const LinearI8& a) {
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  size_t row = 0;
  for (; row + 4 <= a.m; row += 4) rows<Pairs, 4, 2>(a, row, range);
  for (; row < a.m; ++row) rows<Pairs, 1, 4>(a, row, range);
}

}  // namespace

void linear_i8_avx512_8x32(const LinearI8& a) noexcept {
  if (__builtin_cpu_supports("avx512vnni")) {
    multiply_evenly(a);
  } else {
    multiply_pairs(a);
  }
}

}  // namespace alcove::kernels
