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
inline Halves column_at(const int8_t* p, size_t lanes) noexcept {
  if (lanes >= 16) return widen_bytes(vld1q_s8(p));
  int8_t some[16];
  for (size_t c = 0; c < 16; ++c) some[c] = c < lanes ? p[c] : int8_t{0};
  return widen_bytes(vld1q_s8(some));
}

template <int kPixels, int kKernelW, int kStride>
void neon_tile(const DepthwiseConv2dI8& a, const Window& at) noexcept {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernelW;
  const int8_t* head = a.panels + at.panel * depthwise_panel_bytes_i8(a.kernel_h * a.kernel_w);
  const int8_t* weights = head + 128;
  const size_t lanes = a.channels - at.panel * 16;
  int8_t outside[16];
  std::memset(outside, a.input_zero_point, sizeof(outside));
  Lanes16::Words acc[kPixels];
  for (int p = 0; p < kPixels; ++p) acc[p] = Lanes16::zero();
  for (size_t i = 0; i < a.kernel_h; ++i, weights += kKernelW * 16) {
    const int8_t* line = line_at(a, at, i);
    Halves w[kKernelW];
#pragma GCC unroll 16
    for (int t = 0; t < kKernelW; ++t) w[t] = widen_bytes(vld1q_s8(weights + t * 16));
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const int64_t column = at.left + c;
      const bool is_inside = line != nullptr && column >= 0 && column < static_cast<int64_t>(a.in_w);
      const Halves x = column_at(is_inside ? line + static_cast<size_t>(column) * a.channels : outside, lanes);
#pragma GCC unroll 16
      for (int t = 0; t < kKernelW; ++t) {
        const int p = (c - t) / kStride;
        if (c >= t && (c - t) % kStride == 0 && p < kPixels) multiply_add(acc[p], x, w[t]);
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) finish(a, at, head, static_cast<size_t>(p), lanes, acc[p]);
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
