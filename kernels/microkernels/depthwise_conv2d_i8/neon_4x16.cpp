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

template <int kPixels, int kKernelW, int kStride>
void neon_tile(const DepthwiseConv2dI8& a, const Window& at) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernelW;
  const int8_t* head = a.panels + at.panel * depthwise_panel_bytes_i8(a.kernel_h * a.kernel_w);
  const int8_t* weights = head + 128;
  const size_t channels = a.channels, lanes = channels - at.panel * 16;
  const bool is_inside = at.left >= 0 && at.left + kColumns <= static_cast<int64_t>(a.in_w);
  const int8_t* const end = a.input + a.batch * a.in_h * a.in_w * channels;
  const Halves zero = widen_bytes(vdupq_n_s8(static_cast<int8_t>(a.input_zero_point)));
  Lanes16::Words acc[kPixels];
  const Lanes16::Words bias = Lanes16::load_words(head);
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) acc[p] = bias;
  size_t i = 0;
  for (; i < a.kernel_h && line_at(a, at, i) == nullptr; ++i, weights += kKernelW * 16) {
    add_row<kPixels, kKernelW, kStride>(weights, [&](int) noexcept { return zero; }, acc);
  }
  if (is_inside && i < a.kernel_h) {
    const int8_t* first = line_at(a, at, i) + static_cast<size_t>(at.left) * channels;
    const auto row = static_cast<int64_t>(a.in_h) - at.top - static_cast<int64_t>(i * a.dilation_h);
    const size_t rows = (static_cast<size_t>(row) + a.dilation_h - 1) / a.dilation_h;
    const size_t last = rows < a.kernel_h - i ? i + rows : a.kernel_h;
    const size_t line_bytes = a.dilation_h * a.in_w * channels;
    // What a load takes beyond the last channel goes into sums that are not stored.
    const auto reach = static_cast<ptrdiff_t>((kColumns - 1) * channels + 16);
    for (; i < last && end - first >= reach; ++i, first += line_bytes, weights += kKernelW * 16) {
      add_row<kPixels, kKernelW, kStride>(
          weights, [=](int c) noexcept { return widen_bytes(vld1q_s8(first + static_cast<size_t>(c) * channels)); },
          acc);
    }
  }
  for (; i < a.kernel_h; ++i, weights += kKernelW * 16) {
    const int8_t* line = line_at(a, at, i);
    add_row<kPixels, kKernelW, kStride>(
        weights,
        [&](int c) noexcept {
          const int64_t column = at.left + c;
          if (line == nullptr || column < 0 || column >= static_cast<int64_t>(a.in_w)) return zero;
          const int8_t* p = line + static_cast<size_t>(column) * channels;
          return end - p >= 16 ? widen_bytes(vld1q_s8(p)) : column_at(p, lanes);
        },
        acc);
  }
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
