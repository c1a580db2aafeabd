// Two-dimensional 3x3 convolution with stride 1, NHWC, as Winograd's F(4x4, 3x3): an output tile of 4 x 4 pixels takes 36
// products for each pair of channels instead of 144.  The points are 0, +-sqrt(2), +-sqrt(1/2) and infinity, of which the rounding
// error is about twice that of a direct sum, where the usual 0, +-1, +-2 give six times (docs/decisions/0010).
//
// For the 6 x 6 input pixels d below a tile (pixels outside the image are +0), with B and A as in impl.cpp:
//   v = transform by B of the columns of d, then of its rows                                 for each input channel
//   m[i][j][n] = 0, then fma(v[i][j][c], u[i][j][n][c], m[i][j][n]) for each channel c in order   (linear)
//   y = transform by A of the columns of m, then of its rows, + bias                          for each output channel
// then the residual and the activation, as in linear.  A NaN comes out as 0x7FC00000.
//
// Weights are the bias, zeros up to a multiple of 16, then for each (i, j) the panels of linear with u = G w G^T and a bias of
// 0: [36][ceil(out_c/16)][in_c + 1][16].
// Sources: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; the choice of points: Barabasz and others,
// "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2018.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, low <= high; the output overlaps
// no input, the residual neither; scratch has winograd_scratch_bytes.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

struct WinogradConv2dF32 {
  const float* input;     // [batch][in_h][in_w][in_c]
  const float* weights;   // see above
  const float* residual;  // as the output, or null
  float* output;          // [batch][out_h][out_w][out_c]
  float* scratch;
  LinearF32Kernel* linear;
  size_t batch, in_h, in_w, in_c, out_h, out_w, out_c, pad_top, pad_left;
  Activated activation;
};

using WinogradConv2dF32Kernel = void(const WinogradConv2dF32&) noexcept;

WinogradConv2dF32Kernel winograd_conv2d_f32_scalar, winograd_conv2d_f32_avx2, winograd_conv2d_f32_avx512,
    winograd_conv2d_f32_neon;

inline constexpr size_t kWinogradOutput = 4, kWinogradInput = 6, kWinogradPlanes = 36;

// Tiles that are transformed and multiplied at a time: their planes should stay in the second-level cache beside the weights.
constexpr size_t winograd_block_tiles(size_t in_c, size_t out_c) noexcept {
  constexpr size_t kChannels = 3072;
  const size_t fitting = kChannels / (in_c + out_c) / 12 * 12;
  return fitting > 60 ? 60 : fitting < 12 ? 12 : fitting;
}

// Planes of one kind lie a cache line further apart than their floats, so that they do not all fall into the same sets.
template <typename Size>
constexpr Size winograd_plane_floats(size_t tiles, Size channels) noexcept {
  return channels * tiles + 16;
}

// For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size winograd_scratch_bytes(size_t in_c, size_t out_c) noexcept {
  const size_t tiles = winograd_block_tiles(in_c, out_c);
  return (winograd_plane_floats<Size>(tiles, Size(in_c)) + winograd_plane_floats<Size>(tiles, Size(out_c))) *
         kWinogradPlanes * sizeof(float);
}

template <typename Size>
constexpr Size winograd_weight_floats(Size in_c, size_t out_c) noexcept {
  const size_t panels = (out_c + 15) / 16;
  return panel_floats<Size>(Size(panels), in_c) * kWinogradPlanes + panels * 16;
}

}  // namespace alcove::kernels
