// NEON int8 products of matrices: two rows by two outputs of eight inputs are one instruction, so that a tile of 6 rows x 1 panel
// has 24 accumulators of 2 x 2.  The panels' groups of four are joined to eights as they are read.  A single row has no second to
// share an instruction with: it takes the products of four.
#include "kernels/microkernels/linear_i8/neon_fours.h"

namespace alcove::kernels {

namespace {

// With so few inputs sorting the outputs of pairs takes longer than their products save.
constexpr size_t kFewInputs = 64;
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

// The outputs of one row of a pair.
[[gnu::always_inline]] inline Lanes16::Words outputs_of(const int32x4_t (&sums)[kSums], bool is_second) noexcept {
  const auto join = [is_second](int32x4_t low, int32x4_t high) {
    const int64x2_t l = vreinterpretq_s64_s32(low), h = vreinterpretq_s64_s32(high);
    return vreinterpretq_s32_s64(is_second ? vzip2q_s64(l, h) : vzip1q_s64(l, h));
  };
  return {join(sums[0], sums[1]), join(sums[2], sums[3]), join(sums[4], sums[5]), join(sums[6], sums[7])};
}

// `count` tiles below each other.  The last may have one row less than its pairs, which then is computed twice and stored once.
template <int kPairs>
[[gnu::noinline]] void tiles_of_pairs(const LinearI8& args, size_t row, size_t count, size_t panel,
                                      const Int8Range& bounds) noexcept {
  // Copies, because a byte that is written may lie anywhere.
  const LinearI8 a = args;
  const Finish finish(a, panel, bounds);
  for (; count > 0; --count, row += 2 * kPairs) {
    const int8_t* weights = a.panels + panel * panel_bytes_i8(a.k) + kPanelHeadBytes;
    const size_t here = a.m - row < 2 * kPairs ? a.m - row : 2 * kPairs;
    const int8_t* rows[2 * kPairs];
#pragma GCC unroll 8
    for (size_t r = 0; r < 2 * kPairs; ++r) rows[r] = a.input + (row + (r < here ? r : here - 1)) * a.input_stride;
    int32x4_t acc[kPairs][kSums];
    const int32x4_t biases[4] = {finish.bias.a, finish.bias.b, finish.bias.c, finish.bias.d};
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const int64x2_t twos = vreinterpretq_s64_s32(biases[v]);
        acc[p][2 * v] = vreinterpretq_s32_s64(vdupq_laneq_s64(twos, 0));
        acc[p][2 * v + 1] = vreinterpretq_s32_s64(vdupq_laneq_s64(twos, 1));
      }
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
    int8_t* output = a.output + row * a.output_stride + panel * 16;
#pragma GCC unroll 8
    for (size_t r = 0; r < 2 * kPairs; ++r, output += a.output_stride) {
      if (r == here) break;
      const Lanes16::Words words = outputs_of(acc[r / 2], r % 2 != 0);
      if (a.sums != nullptr) {
        store_sums(a, row + r, panel, words);
      } else {
        finish.store(output, words);
      }
    }
  }
}

}  // namespace

void linear_i8_neon_i8mm_6x16(const LinearI8& a) noexcept {
  if (a.m == 1) return multiply<Fours, 4, 1>(a);
  if (a.k <= kFewInputs) return multiply<Fours, 4, 1, 2, 3, 4, 5>(a);
  static constexpr MakeTiles kTiles[kMostPairs] = {tiles_of_pairs<1>, tiles_of_pairs<2>, tiles_of_pairs<3>};
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t pairs = (a.m + 1) / 2, count = (pairs + kMostPairs - 1) / kMostPairs;
  const size_t few = pairs / count, longer = pairs % count;
  if (longer > 0) make_all(a, kTiles[few], 0, 2 * (few + 1), longer, 0, range);
  make_all(a, kTiles[few - 1], 2 * longer * (few + 1), 2 * few, count - longer, 0, range);
}

}  // namespace alcove::kernels
