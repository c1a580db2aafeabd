// NEON: 4 pixels of 16 outputs.  Bytes are widened to 16 bits and their products added to sums of 32; each column of the
// input goes into all pixels that it takes part in before the next is loaded, so that only sums and weights need registers.
#include "kernels/simd/lanes16_neon.h"

#include "kernels/microkernels/depthwise_conv2d_i8/impl.h"

namespace alcove::kernels {

namespace {

struct Halves {
  int16x8_t low, high;
};

inline Halves widen_bytes(int8x16_t bytes) noexcept { return {vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)}; }

inline void multiply_add(Lanes16::Words& sum, const Halves& x, const Halves& w) noexcept {
  sum.a = vmlal_s16(sum.a, vget_low_s16(x.low), vget_low_s16(w.low));
  sum.b = vmlal_high_s16(sum.b, x.low, w.low);
  sum.c = vmlal_s16(sum.c, vget_low_s16(x.high), vget_low_s16(w.high));
  sum.d = vmlal_high_s16(sum.d, x.high, w.high);
}

// The 16 channels of a column; what is beyond the last channel is 0.
[[gnu::noinline]] Halves column_at(const int8_t* p, size_t lanes) noexcept {
  int8_t some[16];
  for (size_t c = 0; c < 16; ++c) some[c] = c < lanes ? p[c] : int8_t{0};
  return widen_bytes(vld1q_s8(some));
}

// Adds a row of the kernel: `column(c)` gives column c of the tile.
template <int kPixels, int kKernelW, int kStride, typename Column>
[[gnu::always_inline]] inline void add_row(const int8_t* weights, Column column,
                                           Lanes16::Words (&acc)[kPixels]) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernelW;
  Halves w[kKernelW];
#pragma GCC unroll 16
  for (int t = 0; t < kKernelW; ++t) w[t] = widen_bytes(vld1q_s8(weights + t * 16));
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    const Halves x = column(c);
#pragma GCC unroll 16
    for (int t = 0; t < kKernelW; ++t) {
      const int p = (c - t) / kStride;
      if (c >= t && (c - t) % kStride == 0 && p < kPixels) multiply_add(acc[p], x, w[t]);
    }
  }
}

// Lines [first, last) of the kernel are inside the input, the first of them at `line`.
struct Lines {
  size_t first, last;
  const int8_t* line;  // column 0

  Lines(const DepthwiseConv2dI8& a, const Window& at) noexcept {
    const auto step = static_cast<int64_t>(a.dilation_h), kernel = static_cast<int64_t>(a.kernel_h);
    const int64_t begin = at.top < 0 ? (step - 1 - at.top) / step : 0;
    const int64_t end = (static_cast<int64_t>(a.in_h) - at.top + step - 1) / step;
    first = static_cast<size_t>(begin < kernel ? begin : kernel);
    last = end > begin ? static_cast<size_t>(end < kernel ? end : kernel) : first;
    const auto row = static_cast<size_t>(at.top + static_cast<int64_t>(first) * step);
    line = first < last ? a.input + (at.batch * a.in_h + row) * a.in_w * a.channels + at.panel * 16 : nullptr;
  }
};

// Whether the middle columns of a tile are inside the input, and loads of 16 bytes from any of its pixels too.
template <int kColumns, int kSide>
inline bool is_read_in_place(const DepthwiseConv2dI8& a, const Window& at, const Lines& lines) noexcept {
  const auto width = static_cast<int64_t>(a.in_w);
  if (at.left + kSide < 0 || at.left + kColumns - kSide > width) return false;
  const size_t pixels = (lines.last - lines.first - 1) * a.dilation_h * a.in_w + a.in_w;  // to the end of the last line
  const int8_t* const end = a.input + a.batch * a.in_h * a.in_w * a.channels;
  return end - lines.line >= static_cast<ptrdiff_t>((pixels - 1) * a.channels + 16);
}

template <int kPixels, int kKernelW, int kStride>
void neon_tile(const DepthwiseConv2dI8& a, const Window& at) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernelW, kSide = kKernelW / 2;
  const int8_t* head = a.panels + at.panel * depthwise_panel_bytes_i8(a.kernel_h * a.kernel_w);
  const int8_t* weights = head + 128;
  const size_t channels = a.channels, lanes = channels - at.panel * 16;
  const int8x16_t zero = vdupq_n_s8(static_cast<int8_t>(a.input_zero_point));
  Lanes16::Words acc[kPixels];
  const Lanes16::Words bias = Lanes16::load_words(head);
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) acc[p] = bias;
  const Lines lines(a, at);
  const size_t first = lines.first, last = lines.last;
  const auto add_outside = [&](size_t rows) {
    for (; rows > 0; --rows, weights += kKernelW * 16) {
      add_row<kPixels, kKernelW, kStride>(weights, [&](int) noexcept { return widen_bytes(zero); }, acc);
    }
  };
  add_outside(first);
  if (first < last && is_read_in_place<kColumns, kSide>(a, at, lines)) {
    // What a load takes beyond the last channel goes into sums that are not stored.  In place of a column beside the input the
    // nearest one is loaded, and not used.
    const int8_t* line = lines.line + (at.left + kSide) * static_cast<int64_t>(channels);  // of column kSide
    const size_t line_bytes = a.dilation_h * a.in_w * channels;
    ptrdiff_t steps[2 * kSide];
    uint8x16_t masks[2 * kSide];
#pragma GCC unroll 8
    for (int s = 0; s < 2 * kSide; ++s) {
      const int c = s < kSide ? s : kColumns - 2 * kSide + s, near = s < kSide ? kSide : kColumns - 1 - kSide;
      const bool is_inside = static_cast<uint64_t>(at.left + c) < a.in_w;
      steps[s] = ((is_inside ? c : near) - kSide) * static_cast<ptrdiff_t>(channels);
      masks[s] = vdupq_n_u8(is_inside ? 255 : 0);
    }
    for (size_t i = first; i < last; ++i, line += line_bytes, weights += kKernelW * 16) {
      add_row<kPixels, kKernelW, kStride>(
          weights,
          [&](int c) noexcept {
            if (c >= kSide && c < kColumns - kSide)
              return widen_bytes(vld1q_s8(line + static_cast<size_t>(c - kSide) * channels));
            const int s = c < kSide ? c : c - kColumns + 2 * kSide;
            return widen_bytes(vbslq_s8(masks[s], vld1q_s8(line + steps[s]), zero));
          },
          acc);
    }
  } else {
    const int8_t* const end = a.input + a.batch * a.in_h * a.in_w * channels;
    for (size_t i = first; i < last; ++i, weights += kKernelW * 16) {
      const int8_t* line = line_at(a, at, i);
      add_row<kPixels, kKernelW, kStride>(
          weights,
          [&](int c) noexcept {
            const int64_t column = at.left + c;
            if (column < 0 || column >= static_cast<int64_t>(a.in_w)) return widen_bytes(zero);
            const int8_t* p = line + static_cast<size_t>(column) * channels;
            return end - p >= 16 ? widen_bytes(vld1q_s8(p)) : column_at(p, lanes);
          },
          acc);
    }
  }
  add_outside(a.kernel_h - last);
  const Lanes16::Floats scales = Lanes16::load(head + 64);
  const Int8Range range = at.range;
  int8_t* output = at.output + at.panel * 16;
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p, output += channels) {
    Lanes16::requantize_store(output, lanes, Lanes16::multiply(Lanes16::to_floats(acc[p]), scales), range);
  }
}

template <int kKernelW, int kStride>
inline constexpr DepthwiseTile kNeonTiles[] = {neon_tile<1, kKernelW, kStride>, neon_tile<2, kKernelW, kStride>,
                                               neon_tile<3, kKernelW, kStride>, neon_tile<4, kKernelW, kStride>};

DepthwiseTiles make_neon_tiles(const DepthwiseConv2dI8& a) noexcept {
  if (a.dilation_w == 1) {
    if (a.kernel_w == 3 && a.stride_w == 1) return {kNeonTiles<3, 1>, 4};
    if (a.kernel_w == 5 && a.stride_w == 1) return {kNeonTiles<5, 1>, 4};
    if (a.kernel_w == 3 && a.stride_w == 2) return {kNeonTiles<3, 2>, 4};
    if (a.kernel_w == 5 && a.stride_w == 2) return {kNeonTiles<5, 2>, 4};
  }
  return kPixelByPixel;
}

}  // namespace

void depthwise_conv2d_i8_neon_4x16(const DepthwiseConv2dI8& a) noexcept { convolve(a, make_neon_tiles(a)); }

}  // namespace alcove::kernels
