// NEON int8 products of matrices: two rows by two outputs of eight inputs are one instruction, so that a tile of 6 rows x 1 panel
// has 24 accumulators of 2 x 2.  The panels' groups of four are joined to eights as they are read.  A single row has no second to
// share an instruction with: it takes the products of four.
#include "kernels/microkernels/linear_i8/neon_fours.h"

namespace alcove::kernels {

namespace {

constexpr size_t kMostPairs = 3;  // of rows
constexpr int kSums = 8;          // of a pair and a panel: 2 x 2 outputs each

// Eight inputs of the rows of each pair, one above the other.
template <int kPairs>
[[gnu::always_inline]] inline void add_eights(const int8x16_t (&x)[kPairs], const int8x16_t (&first)[4],
                                              const int8x16_t (&second)[4], int32x4_t (&acc)[kPairs][kSums]) noexcept {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const int32x4_t a = vreinterpretq_s32_s8(first[v]), b = vreinterpretq_s32_s8(second[v]);
    const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(a, b)), high = vreinterpretq_s8_s32(vzip2q_s32(a, b));
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      acc[p][2 * v] = vmmlaq_s32(acc[p][2 * v], x[p], low);
      acc[p][2 * v + 1] = vmmlaq_s32(acc[p][2 * v + 1], x[p], high);
    }
  }
}

inline void load_group(const int8_t* weights, int8x16_t (&w)[4]) noexcept {
  for (int v = 0; v < 4; ++v) w[v] = vld1q_s8(weights + 16 * v);
}

// The last inputs of a row, fewer than eight, and zeros.
inline int8x8_t load_rest(const int8_t* row, size_t count) noexcept {
  int8_t bytes[8] = {};
  for (size_t i = 0; i < 8 && i < count; ++i) bytes[i] = row[i];
  return vld1_s8(bytes);
}

// `count` rows: all of the pairs', or one less, which then is computed twice and stored once.
template <int kPairs>
void tile_of_pairs(const LinearI8& a, size_t row, size_t count, size_t panel, const Int8Range& range) noexcept {
  const int8_t* weights = a.panels + panel * panel_bytes_i8(a.k) + kPanelHeadBytes;
  const int8_t* rows[2 * kPairs];
#pragma GCC unroll 8
  for (size_t r = 0; r < 2 * kPairs; ++r) rows[r] = a.input + (row + (r < count ? r : count - 1)) * a.input_stride;
  int32x4_t acc[kPairs][kSums];
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < kSums; ++v) acc[p][v] = vdupq_n_s32(0);
  }
  size_t k = 0;
  for (; k + 8 <= a.k; k += 8, weights += 128) {
    int8x16_t x[kPairs], first[4], second[4];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) x[p] = vcombine_s8(vld1_s8(rows[2 * p] + k), vld1_s8(rows[2 * p + 1] + k));
    load_group(weights, first);
    load_group(weights + 64, second);
    add_eights(x, first, second, acc);
  }
  if (k < a.k) {
    int8x16_t x[kPairs], first[4], second[4];
    for (int p = 0; p < kPairs; ++p)
      x[p] = vcombine_s8(load_rest(rows[2 * p] + k, a.k - k), load_rest(rows[2 * p + 1] + k, a.k - k));
    load_group(weights, first);
    if (a.k - k > 4) {
      load_group(weights + 64, second);
    } else {
      for (int8x16_t& zeros : second) zeros = vdupq_n_s8(0);
    }
    add_eights(x, first, second, acc);
  }
  const auto outputs = [](int32x4_t low, int32x4_t high, bool is_second) {
    const int64x2_t l = vreinterpretq_s64_s32(low), h = vreinterpretq_s64_s32(high);
    return vreinterpretq_s32_s64(is_second ? vzip2q_s64(l, h) : vzip1q_s64(l, h));
  };
  const Finish finish(a, panel, range);
  int8_t* output = a.output + row * a.output_stride + panel * 16;
  const size_t output_stride = a.output_stride;
  const bool wants_sums = a.sums != nullptr;
#pragma GCC unroll 8
  for (size_t r = 0; r < 2 * kPairs; ++r, output += output_stride) {
    const int32x4_t(&sums)[kSums] = acc[r / 2];
    const bool is_second = r % 2 != 0;
    if (r == count) break;
    const Lanes16::Words words =
        Lanes16::add({outputs(sums[0], sums[1], is_second), outputs(sums[2], sums[3], is_second),
                      outputs(sums[4], sums[5], is_second), outputs(sums[6], sums[7], is_second)},
                     finish.bias);
    if (wants_sums) {
      store_sums(a, row + r, panel, words);
    } else {
      finish.store(output, words);
    }
  }
}

}  // namespace

void linear_i8_neon_i8mm_6x16(const LinearI8& a) noexcept {
  if (a.m == 1) return multiply<Fours, 4, 1>(a);
  using Tile = void (*)(const LinearI8&, size_t, size_t, size_t, const Int8Range&) noexcept;
  static constexpr Tile kTiles[kMostPairs] = {tile_of_pairs<1>, tile_of_pairs<2>, tile_of_pairs<3>};
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t panels = (a.n + 15) / 16, pairs = (a.m + 1) / 2;
  const size_t count = (pairs + kMostPairs - 1) / kMostPairs;
  const size_t few = pairs / count, longer = pairs % count;
  size_t row = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t here = few + (i < longer ? 1 : 0);
    const size_t rows = a.m - row < 2 * here ? a.m - row : 2 * here;
    for (size_t panel = 0; panel < panels; ++panel) kTiles[here - 1](a, row, rows, panel, range);
    row += rows;
  }
}

}  // namespace alcove::kernels
