// Samples of an image at given points, NHWC, as torch's grid_sample.  grid[n][oh][ow] = (x, y); in float32, for a dimension
// of `size` positions (columns shown, from x; rows from y alike):
//   s = (x + 1) / 2 * (size - 1) with align_corners, else ((x + 1) * size - 1) / 2
//   kBorder:     s held in [0, size - 1], NaN at 0
//   kReflection: with low = 0, span = size - 1 (align_corners) or low = -0.5, span = size: t = |s - low|;
//                e = fma(-floor(t / (2 span)), 2 span, t); s = min(e, 2 span - e) + low, then as kBorder; span 0: s = 0
// kNearest:   the position nearest to s, ties to even.
// kBilinear:  i = floor(s), f = s - i; taps i and i + 1 with weights 1 - f and f; y = nw * (w_nw), then fma for ne, sw, se,
//             where a weight is the product of its column's and its row's.
// kBicubic:   s without padding rule; i = floor(s), f = s - i; the 16 taps around, each with the padding rule of its own
//             (held or reflected, then nearest), weights as in resize2d; columns first, then rows.
// A tap outside the image takes part with x = +0 (kNearest: the answer is +0).
// A NaN that is computed comes out as 0x7FC00000; kNearest moves bits.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit; the output overlaps no input.
// Grids may hold anything.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

enum class GridMode { kBilinear = 0, kNearest = 1, kBicubic = 2 };  // torch's numbers
enum class GridPadding { kZeros = 0, kBorder = 1, kReflection = 2 };

struct GridSampleF32 {
  const float* input;  // [batch][in_h][in_w][channels]
  const float* grid;   // [batch][out_h][out_w][2]
  float* output;       // [batch][out_h][out_w][channels]
  size_t batch, in_h, in_w, channels, out_h, out_w;
  GridMode mode;
  GridPadding padding;
  bool align_corners;
};

using GridSampleF32Kernel = void(const GridSampleF32&) noexcept;

GridSampleF32Kernel grid_sample_f32_scalar, grid_sample_f32_avx2, grid_sample_f32_avx512, grid_sample_f32_neon;

}  // namespace alcove::kernels
