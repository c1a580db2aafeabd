// NEON depthwise convolution with square kernels: tiles of 4 x 4 outputs, 2 x 7 with the larger kernels.  Each column of the input
// goes into all outputs that it takes part in before the next is loaded, so that only sums and weights need registers.  A call
// makes neighbouring tiles, and all addresses are a line's and one of few distances: with nine products an output, everything
// else that is made for each tile takes longer than they do.
#include <cstdint>

#include "kernels/microkernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/simd/vector_neon.h"

namespace alcove::kernels {

namespace {

// Where the first of some tiles is.  Addresses are numbers: lines outside the input have some too, which are never read.
struct Place {
  int64_t top, left;  // the input's row and column of the first tap
  uintptr_t input;    // there, of the vector's first channel
  uintptr_t weights;
  uintptr_t output;
};

inline Neon::Register load(uintptr_t from) noexcept { return vld1q_f32(reinterpret_cast<const float*>(from)); }

// Where registers have room for them.
template <int kKernel>
inline constexpr bool kHoldsWeights = kKernel == 3;

// The columns of a tile that may be outside the input, half a kernel on either side: the nearest column that is inside is read
// in their place, and made 0 by a mask, which takes less than a branch.
template <int kKernel, int kColumns>
struct Border {
  static constexpr int kSide = kKernel / 2;
  size_t steps[2 * kSide];
  uint32x4_t masks[2 * kSide];

  void find(const DepthwiseConv2dF32& a, int64_t left, const size_t (&all)[kColumns]) noexcept {
#pragma GCC unroll 8
    for (int s = 0; s < 2 * kSide; ++s) {
      const int c = s < kSide ? s : kColumns - 2 * kSide + s;
      const bool is_inside = static_cast<uint64_t>(left + c) < a.in_w;
      steps[s] = is_inside ? all[c] : all[s < kSide ? kSide : kColumns - 1 - kSide];
      masks[s] = vdupq_n_u32(is_inside ? ~0u : 0u);
    }
  }
  Neon::Register load_column(uintptr_t line, int c, const size_t (&all)[kColumns]) const noexcept {
    if (c >= kSide && c < kColumns - kSide) return load(line + all[c]);
    const int s = c < kSide ? c : c - kColumns + 2 * kSide;
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(load(line + steps[s])), masks[s]));
  }
};

// What all tiles of a call share.
template <int kColumns>
struct Lines {
  const DepthwiseConv2dF32& a;
  size_t pixel, line, row;  // bytes from pixel to pixel, from line to line of the input, from row to row of the output
  size_t steps[kColumns];   // bytes from the first pixel to each; registers, and no sums that are made for each load

  explicit Lines(const DepthwiseConv2dF32& args) noexcept
      : a(args), pixel(a.channels * sizeof(float)), line(a.in_w * pixel), row(a.out_w * pixel) {
#pragma GCC unroll 32
    for (int c = 0; c < kColumns; ++c) {
      steps[c] = static_cast<size_t>(c) * pixel;
      asm("" : "+r"(steps[c]));
    }
  }
};

template <int kKernel>
[[gnu::always_inline]] inline void load_weights(uintptr_t from, const size_t* steps,
                                                Neon::Register (&w)[kKernel]) noexcept {
#pragma GCC unroll 8
  for (int t = 0; t < kKernel; ++t) w[t] = load(from + steps[t]);
}

// One tile, `w` the weights if they are held.  What is not inside may look at lines that the input lacks, and at columns of a border.
template <int kKernel, int kStride, int kRows, int kPixels, bool kIsInside, int kColumns>
[[gnu::always_inline]] inline void make_tile(const Lines<kColumns>& lines, const Place& at, Neon::Register bias,
                                             Neon::Register (&w)[kKernel][kKernel]) noexcept {
  constexpr int kLines = (kRows - 1) * kStride + kKernel;
  Neon::Register y[kRows][kPixels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) y[r][p] = bias;
  }
  [[maybe_unused]] Border<kKernel, kColumns> border;
  if constexpr (!kIsInside) border.find(lines.a, at.left, lines.steps);
  uintptr_t line = at.input, weights = at.weights + lines.pixel;
#pragma GCC unroll 16
  for (int i = 0; i < kLines; ++i) {
    if constexpr (!kHoldsWeights<kKernel>) {
      // With a stride of 1 those of the other rows are still there.
#pragma GCC unroll 8
      for (int r = 0; r < (kStride == 1 ? 1 : kRows); ++r) {
        const int t = i - r * kStride;
        if (t >= 0 && t < kKernel) {
          load_weights(weights - static_cast<size_t>(r * kStride * kKernel) * lines.pixel, lines.steps, w[t]);
        }
      }
      weights += kKernel * lines.pixel;
      asm("" : "+r"(weights));
    }
    const bool has_line = kIsInside || static_cast<uint64_t>(at.top + i) < lines.a.in_h;
#pragma GCC unroll 32
    for (int c = 0; c < kColumns; ++c) {
      Neon::Register x = vdupq_n_f32(0.0f);
      if (has_line) {
        if constexpr (kIsInside) {
          x = load(line + lines.steps[c]);
        } else {
          x = border.load_column(line, c, lines.steps);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const int t = i - r * kStride;
        if (t < 0 || t >= kKernel) continue;
#pragma GCC unroll 8
        for (int p = 0; p < kPixels; ++p) {
          const int column = c - p * kStride;
          if (column >= 0 && column < kKernel) y[r][p] = Neon::fma(x, w[t][column], y[r][p]);
        }
      }
    }
    line += lines.line;
    asm("" : "+r"(line));
  }
  activate_all<Neon>(lines.a.activation, y, [&](auto function) {
    uintptr_t output = at.output;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) {
        vst1q_f32(reinterpret_cast<float*>(output + lines.steps[p]), function(y[r][p]));
      }
      output += lines.row;
      asm("" : "+r"(output));
    }
  });
}

// `tiles` neighbours of kRows x kPixels outputs; returns where the next one is.
template <int kKernel, int kStride, int kRows, int kPixels>
[[gnu::noinline]] Place make_tiles(const DepthwiseConv2dF32& a, Place at, size_t tiles) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernel, kLines = (kRows - 1) * kStride + kKernel;
  const Lines<kColumns> lines(a);
  const Neon::Register bias = load(at.weights);
  Neon::Register w[kKernel][kKernel];
  if constexpr (kHoldsWeights<kKernel>) {
    uintptr_t from = at.weights + lines.pixel;
#pragma GCC unroll 8
    for (int t = 0; t < kKernel; ++t, from += kKernel * lines.pixel) load_weights(from, lines.steps, w[t]);
  }
  const bool has_lines = at.top >= 0 && at.top + kLines <= static_cast<int64_t>(a.in_h);
  const int64_t last = has_lines ? static_cast<int64_t>(a.in_w) - kColumns : -1;  // column of a tile inside
  for (; tiles > 0; --tiles) {
    // Of narrow tiles there are few.
    if (kRows > 1 && kPixels > 1 && at.left >= 0 && at.left <= last) {
      make_tile<kKernel, kStride, kRows, kPixels, true>(lines, at, bias, w);
    } else {
      make_tile<kKernel, kStride, kRows, kPixels, false>(lines, at, bias, w);
    }
    at.left += kPixels * kStride;
    at.input += kPixels * kStride * lines.pixel;
    at.output += kPixels * lines.pixel;
  }
  return at;
}

using Tiles = Place (*)(const DepthwiseConv2dF32&, Place, size_t tiles);

// The tiles of a kernel: of so many rows and of one, by falling width, the last one pixel wide.
struct Shapes {
  size_t rows, pixels[3];
  Tiles of_rows[3], of_one[3];
};

template <int kKernel, int kStride, int kRows, int kWide, int kMiddle>
inline constexpr Shapes kShapes = {
    kRows,
    {kWide, kMiddle, 1},
    {make_tiles<kKernel, kStride, kRows, kWide>, make_tiles<kKernel, kStride, kRows, kMiddle>,
     make_tiles<kKernel, kStride, kRows, 1>},
    {make_tiles<kKernel, kStride, 1, kWide>, make_tiles<kKernel, kStride, 1, kMiddle>,
     make_tiles<kKernel, kStride, 1, 1>}};

// Null where there are no tiles.
const Shapes* find_shapes(const DepthwiseConv2dF32& a) noexcept {
  const bool is_square = a.kernel_h == a.kernel_w && a.stride_h == a.stride_w && a.dilation_h == 1 && a.dilation_w == 1;
  if (!is_square || a.multiplier != 1 || a.channels % Neon::kWidth != 0) return nullptr;
  const size_t border = a.kernel_w / 2, end = (a.out_w - 1) * a.stride_w + a.kernel_w;
  if (a.pad_left > border || end > a.in_w + a.pad_left + border) return nullptr;
  if (a.kernel_w == 3 && a.stride_w == 1) return &kShapes<3, 1, 4, 4, 3>;
  if (a.kernel_w == 3 && a.stride_w == 2) return &kShapes<3, 2, 4, 4, 3>;
  if (a.kernel_w == 5 && a.stride_w == 1) return &kShapes<5, 1, 2, 7, 4>;
  if (a.kernel_w == 5 && a.stride_w == 2) return &kShapes<5, 2, 2, 7, 4>;
  if (a.kernel_w == 7 && a.stride_w == 1) return &kShapes<7, 1, 2, 7, 4>;
  return nullptr;
}

// How many tiles of each width a row of outputs has: none that are one pixel wide where the others' widths add up to it.
void share_out(const Shapes& shapes, size_t outputs, size_t (&counts)[3]) noexcept {
  const size_t wide = shapes.pixels[0], middle = shapes.pixels[1], most = outputs / wide;
  counts[0] = most;
  for (size_t few = 0; few < middle && few <= most; ++few) {
    if ((outputs - (most - few) * wide) % middle == 0) {
      counts[0] = most - few;
      break;
    }
  }
  counts[1] = (outputs - counts[0] * wide) / middle;
  counts[2] = outputs - counts[0] * wide - counts[1] * middle;
}

}  // namespace

void depthwise_conv2d_f32_neon_4x4(const DepthwiseConv2dF32& a) noexcept {
  const Shapes* const shapes = find_shapes(a);
  if (shapes == nullptr) return depthwise_conv2d_f32_neon(a);
  size_t counts[3];
  share_out(*shapes, a.out_w, counts);
  const size_t pixel = a.channels * sizeof(float);
  for (size_t batch = 0; batch < a.batch; ++batch) {
    size_t rows = shapes->rows;
    for (size_t row = 0; row < a.out_h; row += rows) {
      // What is left is computed in one tile with some rows once more, or row by row, whichever is less work.
      const size_t left = a.out_h - row;
      if (left < rows && a.out_h >= rows && left * 2 > rows) row = a.out_h - rows;
      if (a.out_h - row < rows) rows = 1;
      const Tiles* const tiles = rows == 1 ? shapes->of_one : shapes->of_rows;
      Place start;
      start.top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
      start.left = -static_cast<int64_t>(a.pad_left);
      const int64_t first =
          (static_cast<int64_t>(batch * a.in_h) + start.top) * static_cast<int64_t>(a.in_w) + start.left;
      start.input = reinterpret_cast<uintptr_t>(a.input) + static_cast<size_t>(first) * pixel;
      start.weights = reinterpret_cast<uintptr_t>(a.weights);
      start.output = reinterpret_cast<uintptr_t>(a.output) + (batch * a.out_h + row) * a.out_w * pixel;
      for (size_t o = 0; o < a.channels; o += Neon::kWidth) {
        Place at = start;
        for (size_t s = 0; s < 3; ++s) {
          if (counts[s] > 0) at = tiles[s](a, at, counts[s]);
        }
        start.input += Neon::kWidth * sizeof(float);
        start.weights += Neon::kWidth * sizeof(float);
        start.output += Neon::kWidth * sizeof(float);
      }
    }
  }
}

}  // namespace alcove::kernels
