// The loops of depthwise convolution, for vectors V of channels (kernels/simd/vector.h).
#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/long_sum.h"
#include "kernels/simd/per_isa.h"
#include "kernels/simd/vector.h"
#include "kernels/simd/vector_scalar.h"

namespace alcove::kernels {

namespace {

// Where some neighbours in a row of the output look: the input's row and column of their first tap, channels [o, o + lanes).
struct Window {
  size_t batch;
  int64_t top, left;
  size_t o, lanes;
  float* output;  // of the first, channel 0
};

// The input's row, null outside the input.
inline const float* line_at(const DepthwiseConv2dF32& a, const Window& at, size_t tap_row) noexcept {
  const int64_t row = at.top + static_cast<int64_t>(tap_row * a.dilation_h);
  if (row < 0 || row >= static_cast<int64_t>(a.in_h)) return nullptr;
  return a.input + (at.batch * a.in_h + static_cast<size_t>(row)) * a.in_w * a.channels;
}

template <class V>
typename V::Register input_at(const DepthwiseConv2dF32& a, const Window& at, const float* line,
                              int64_t column) noexcept {
  if (line == nullptr || column < 0 || column >= static_cast<int64_t>(a.in_w)) return V::fill(0.0f);
  const size_t channel = a.multiplier == 1 ? at.o : at.o / a.multiplier;
  return V::load(line + static_cast<size_t>(column) * a.channels + channel, at.lanes);
}

// What a tile does that applies another function than a clamp, or ends beyond the last channel.
template <class V>
[[gnu::noinline]] void finish(const DepthwiseConv2dF32& a, const Window& at, size_t rows, size_t pixels,
                              const float* sums) noexcept {
  for (size_t r = 0; r < rows; ++r) {
    float* output = at.output + r * a.out_w * a.channels + at.o;
    for (size_t p = 0; p < pixels; ++p, output += a.channels, sums += V::kWidth) {
      V::store(output, at.lanes, activate<V>(a.activation, V::load(sums, V::kWidth)));
    }
  }
}

// kRows x kPixels neighbours of the output, for kernels of kKernel x kKernel that lie side by side: each column of the input is
// loaded once for all pixels that it takes part in.
template <class V, int kRows, int kPixels, int kKernel, int kStride>
[[gnu::noinline]] void tile(const DepthwiseConv2dF32& a, const Window& at) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernel;
  const size_t channels = a.channels;
  const typename V::Mask used = V::mask(at.lanes);
  typename V::Register y[kRows][kPixels];
  const typename V::Register bias = V::load_masked(a.weights + at.o, used);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPixels; ++p) y[r][p] = bias;
  }
  // Which lanes of a column are read: none of one outside the input, whose address is never used.
  typename V::Mask inside[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    const int64_t column = at.left + c;
    inside[c] = V::mask(column >= 0 && column < static_cast<int64_t>(a.in_w) ? at.lanes : 0);
  }
  const float* const weights = a.weights + channels + at.o;
  const auto step = static_cast<int64_t>(channels), line_floats = static_cast<int64_t>(a.in_w) * step;
  // Of the first tap; of one outside the input it is never used.
  const auto first_line = static_cast<int64_t>(at.batch * a.in_h) + at.top;
  int64_t offset = first_line * line_floats + at.left * step + static_cast<int64_t>(at.o);
#pragma GCC unroll 1
  for (int i = 0; i < (kRows - 1) * kStride + kKernel; ++i, offset += line_floats) {
    typename V::Register x[kColumns];
    if (static_cast<uint64_t>(at.top + i) < a.in_h) {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        x[c] = V::load_masked(a.input + (offset + c * step), inside[c]);
      }
    } else {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) x[c] = V::fill(0.0f);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const int tap_row = i - r * kStride;
      if (tap_row < 0 || tap_row >= kKernel) continue;
      const float* row_weights = weights + static_cast<size_t>(tap_row * kKernel) * channels;
#pragma GCC unroll 16
      for (int tap = 0; tap < kKernel; ++tap) {
        const typename V::Register w = V::load_masked(row_weights + static_cast<size_t>(tap) * channels, used);
#pragma GCC unroll 4
        for (int p = 0; p < kPixels; ++p) y[r][p] = V::fma(x[p * kStride + tap], w, y[r][p]);
      }
    }
  }
  const size_t row_floats = a.out_w * channels;
  float* const output = at.output + at.o;
  if (a.activation.function <= Activation::clamp && at.lanes == V::kWidth) {
    if (a.activation.function == Activation::clamp) {
      const typename V::Register low = V::fill(a.activation.low), high = V::fill(a.activation.high);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int p = 0; p < kPixels; ++p) y[r][p] = V::clamp(y[r][p], low, high);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; ++p) {
        V::store(output + static_cast<size_t>(r) * row_floats + static_cast<size_t>(p) * channels, V::kWidth, y[r][p]);
      }
    }
    return;
  }
  float sums[kRows * kPixels * V::kWidth];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPixels; ++p)
      V::store(sums + static_cast<size_t>(r * kPixels + p) * V::kWidth, V::kWidth, y[r][p]);
  }
  finish<V>(a, at, kRows, kPixels, sums);
}

// kPixels neighbours in a row, for any kernel: each tap's weights are loaded once for all of them.
template <class V, int kPixels, bool kIsRepeated, bool kIsInside>
void block(const DepthwiseConv2dF32& a, const Window& at) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  const typename V::Mask used = V::mask(at.lanes);
  // Which channels a vector of outputs reads, from the first on: each `multiplier` times.
  const size_t channel = kIsRepeated ? at.o / a.multiplier : at.o;
  typename V::Mask read = used;
  [[maybe_unused]] typename V::Places places{};
  if constexpr (kIsRepeated) {
    read = V::mask((at.o + at.lanes - 1) / a.multiplier + 1 - channel);
    places = V::places(at.o % a.multiplier, a.multiplier);
  }
  const float* weights = a.weights + at.o;
  typename V::Register y[kPixels];
  const typename V::Register bias = V::load_masked(weights, used);
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) y[p] = bias;
  const auto width = static_cast<int64_t>(a.in_w), stride = static_cast<int64_t>(a.stride_w);
  const auto pixel = static_cast<ptrdiff_t>(a.stride_w * a.channels);
  const auto tap_floats = static_cast<ptrdiff_t>(a.dilation_w * a.channels);
  const auto start = static_cast<ptrdiff_t>(at.left) * static_cast<ptrdiff_t>(a.channels);
  const size_t kernel_w = a.kernel_w;
  for (size_t tap_row = 0; tap_row < a.kernel_h; ++tap_row) {
    const float* line = line_at(a, at, tap_row);
    ptrdiff_t x = start + static_cast<ptrdiff_t>(channel);
    int64_t column = at.left;
    for (size_t tap = 0; tap < kernel_w; ++tap) {
      const typename V::Register w = V::load_masked(weights += outputs, used);
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; ++p) {
        typename V::Register factor = V::fill(0.0f);
        if (line != nullptr && (kIsInside || (column + p * stride >= 0 && column + p * stride < width))) {
          factor = V::load_masked(line + (x + p * pixel), read);
          if constexpr (kIsRepeated) factor = V::take(factor, places);
        }
        y[p] = V::fma(factor, w, y[p]);
      }
      x += tap_floats;
      column += static_cast<int64_t>(a.dilation_w);
    }
  }
  float* output = at.output + at.o;
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p, output += outputs) V::store(output, at.lanes, activate<V>(a.activation, y[p]));
}

template <class V, int kPixels, bool kIsRepeated>
[[gnu::noinline]] void block(const DepthwiseConv2dF32& a, const Window& at) noexcept {
  const size_t reach = (a.kernel_w - 1) * a.dilation_w + (kPixels - 1) * a.stride_w;
  if (at.left >= 0 && at.left + static_cast<int64_t>(reach) < static_cast<int64_t>(a.in_w)) {
    block<V, kPixels, kIsRepeated, true>(a, at);
  } else {
    block<V, kPixels, kIsRepeated, false>(a, at);
  }
}

// One pixel of any kernel.
template <class V, bool kIsLong>
void pixel(const DepthwiseConv2dF32& a, const Window& at) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  const float* weights = a.weights + at.o;
  typename V::Register y = V::load(weights, at.lanes);
  [[maybe_unused]] size_t left = kSumBlock;  // of the block
  [[maybe_unused]] LongSums<V::kWidth> long_sums;
  if constexpr (kIsLong) long_sums.clear();
  [[maybe_unused]] const auto end_block = [&] {
    float sums[V::kWidth];
    V::store(sums, V::kWidth, y);
    long_sums.add(sums);
    y = V::fill(0.0f);
    left = kSumBlock;
  };
  for (size_t tap_row = 0; tap_row < a.kernel_h; ++tap_row) {
    const float* line = line_at(a, at, tap_row);
    for (size_t tap = 0; tap < a.kernel_w; ++tap) {
      if constexpr (kIsLong) {
        if (left == 0) end_block();
        --left;
      }
      const typename V::Register x = input_at<V>(a, at, line, at.left + static_cast<int64_t>(tap * a.dilation_w));
      y = V::fma(x, V::load(weights += outputs, at.lanes), y);
    }
  }
  if constexpr (kIsLong) {
    end_block();
    y = V::load(long_sums.total(), V::kWidth);
  }
  V::store(at.output + at.o, at.lanes, activate<V>(a.activation, y));
}

using DepthwiseTile = void (*)(const DepthwiseConv2dF32&, const Window&);

// Tiles of one row and of `rows`, by 1, 3 and 4 pixels; none: pixel by pixel.
struct DepthwiseTiles {
  const DepthwiseTile (*of_rows)[3] = nullptr;
  size_t rows = 1;
};

// Rows whose accumulators fill the registers.
template <class V>
inline constexpr int kTileRows = V::kRegisters >= 32 ? 4 : 2;

template <class V, int kKernel, int kStride>
inline constexpr DepthwiseTile kTiles[2][3] = {
    {tile<V, 1, 1, kKernel, kStride>, tile<V, 1, 3, kKernel, kStride>, tile<V, 1, 4, kKernel, kStride>},
    {tile<V, kTileRows<V>, 1, kKernel, kStride>, tile<V, kTileRows<V>, 3, kKernel, kStride>,
     tile<V, kTileRows<V>, 4, kKernel, kStride>}};

// For kernels that have no tiles of their own.
template <class V, bool kIsRepeated>
inline constexpr DepthwiseTile kBlocks[1][3] = {
    {block<V, 1, kIsRepeated>, block<V, 3, kIsRepeated>, block<V, 4, kIsRepeated>}};

// Two rows beside the ten columns of a line; a last row by itself is made in blocks, which are half as fast and need no code.
template <class V>
inline constexpr DepthwiseTile kSevens[2][3] = {{block<V, 1, false>, block<V, 3, false>, block<V, 4, false>},
                                                {tile<V, 2, 1, 7, 1>, tile<V, 2, 3, 7, 1>, tile<V, 2, 4, 7, 1>}};

template <class V>
DepthwiseTiles make_tiles([[maybe_unused]] const DepthwiseConv2dF32& a) noexcept {
  if constexpr (V::kWidth > 1) {
    if (a.kernel_h * a.kernel_w > kLongestChain) return {};
    if (a.multiplier != 1) return {kBlocks<V, true>, 1};
    const bool is_square =
        a.kernel_h == a.kernel_w && a.stride_h == a.stride_w && a.dilation_h == 1 && a.dilation_w == 1;
    if (!is_square) return {kBlocks<V, false>, 1};
    if (a.kernel_w == 3 && a.stride_w == 1) return {kTiles<V, 3, 1>, kTileRows<V>};
    if (a.kernel_w == 5 && a.stride_w == 1) return {kTiles<V, 5, 1>, kTileRows<V>};
    if (a.kernel_w == 7 && a.stride_w == 1) return {kSevens<V>, 2};
    if (a.kernel_w == 3 && a.stride_w == 2) return {kTiles<V, 3, 2>, kTileRows<V>};
    if (a.kernel_w == 5 && a.stride_w == 2) return {kTiles<V, 5, 2>, kTileRows<V>};
    return {kBlocks<V, false>, 1};
  }
  return {};
}

// Pixels of the next tile in a row: threes and fours wherever a width is a sum of them.
inline size_t tile_pixels(size_t left) noexcept {
  return left < 3 || left == 5 ? (left == 5 ? 4 : 1) : left % 4 == 0 ? 4 : 3;
}

// One row of the output, or as many as a tile has.
template <class V>
void convolve_rows(const DepthwiseConv2dF32& a, const DepthwiseTiles& tiles, Window at, bool is_one,
                   float* line) noexcept {
  const size_t outputs = a.channels * a.multiplier;
  // Of vectors, only long sums are made pixel by pixel.
  auto* const one = V::kWidth > 1 || a.kernel_h * a.kernel_w > kLongestChain ? pixel<V, true> : pixel<V, false>;
  for (at.o = 0; at.o < outputs; at.o += V::kWidth) {
    at.lanes = outputs - at.o < V::kWidth ? outputs - at.o : V::kWidth;
    at.left = -static_cast<int64_t>(a.pad_left);
    at.output = line;
    for (size_t left = a.out_w; left > 0;) {
      const size_t here = tiles.of_rows == nullptr ? 1 : tile_pixels(left);
      if (tiles.of_rows == nullptr) {
        one(a, at);
      } else {
        tiles.of_rows[is_one ? 0 : 1][here / 2](a, at);
      }
      at.left += static_cast<int64_t>(here * a.stride_w);
      at.output += here * outputs;
      left -= here;
    }
  }
}

template <class V>
void convolve(const DepthwiseConv2dF32& a) noexcept {
  const DepthwiseTiles tiles = make_tiles<V>(a);
  const size_t row_floats = a.out_w * a.channels * a.multiplier;
  Window at{};
  for (; at.batch < a.batch; ++at.batch) {
    size_t rows = tiles.rows;
    for (size_t row = 0; row < a.out_h; row += rows) {
      const size_t left = a.out_h - row;
      // What is left is computed in one tile with some rows once more, or row by row, whichever is less work.
      if (left < rows && a.out_h >= rows && left * 2 > rows) row = a.out_h - rows;
      if (a.out_h - row < rows) rows = 1;
      at.top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
      convolve_rows<V>(a, tiles, at, rows == 1, a.output + (at.batch * a.out_h + row) * row_floats);
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(depthwise_conv2d_f32)(const DepthwiseConv2dF32& a) noexcept {
  // Long sums of several outputs a channel are rare.
  if (a.multiplier == 1 || a.kernel_h * a.kernel_w <= kLongestChain) {
    convolve<Vector>(a);
  } else {
    convolve<Scalar>(a);
  }
}

}  // namespace alcove::kernels
