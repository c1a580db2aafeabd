// Samples of a volume at given points, channels last, as torch's grid_sample: voxels of anything, tables of colors.
// grid[n][point] = (x, y, z), of which x runs over columns, y over rows, z over planes.  In float32, for a dimension of `size`
// positions, s and the paddings are those of grid_sample.h, but for NaN at size - 1, as torch has it for volumes.  Then
//   kNearest:   the position nearest to each s, ties to even.
//   kBilinear:  i = floor(s), f = s - i; taps i and i + 1 with weights 1 - f and f.  The weight of a corner is (x's * y's) * z's.
//               y = the first corner * its weight, then fma for the others, x fastest, then y, then z.
// A corner outside the volume takes part with +0 and the weight +0 (kNearest: the answer is +0).
// A NaN that is computed comes out as 0x7FC00000; kNearest moves bits.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit; the output overlaps no input.
// Grids may hold anything.  Any number of threads.
#pragma once

#include <cstddef>

#include "kernels/microkernels/grid_sample/grid_sample.h"

namespace alcove::kernels {

struct GridSample3dF32 {
  const float* input;  // [batch][in_d][in_h][in_w][channels]
  const float* grid;   // [batch][points][3]
  float* output;       // [batch][points][channels]
  size_t batch, in_d, in_h, in_w, channels, points;
  GridMode mode;  // kBilinear or kNearest
  GridPadding padding;
  bool align_corners;
};

using GridSample3dF32Kernel = void(const GridSample3dF32&) noexcept;

GridSample3dF32Kernel grid_sample3d_f32_scalar, grid_sample3d_f32_avx2, grid_sample3d_f32_avx512,
    grid_sample3d_f32_neon;

}  // namespace alcove::kernels
