// The loops of sampling volumes: coordinates of a block of points first, in vectors, then the corners of each point.
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/microkernels/grid_sample/axis.h"
#include "kernels/microkernels/grid_sample3d/grid_sample3d.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

constexpr size_t kBlock = 64;
constexpr size_t kCorners = 8;
constexpr size_t kColors = 3;
constexpr size_t kChannels = 32;
constexpr float kZeros[kChannels] = {};

// One dimension of a block of points: the lower taps, and the weights of the upper ones.
struct BlockAxis {
  float low[kBlock], share[kBlock];
};

float apply_padding(float s, size_t size, GridPadding padding, bool align_corners) noexcept {
  if (padding == GridPadding::kZeros) return s;
  if (padding == GridPadding::kReflection) s = reflect(s, size, align_corners);
  return s != s ? static_cast<float>(size - 1) : hold(s, size);
}

void find(const float* grid, size_t axis, size_t points, size_t size, const GridSample3dF32& a,
          BlockAxis& found) noexcept {
  for (size_t i = 0; i < points; ++i) {
    const float s =
        apply_padding(unnormalize(grid[3 * i + axis], size, a.align_corners), size, a.padding, a.align_corners);
    const float low = a.mode == GridMode::kNearest ? __builtin_nearbyintf(s) : __builtin_floorf(s);
    found.low[i] = low;
    found.share[i] = s - low;
  }
}

// The voxel at whole coordinates; nullptr: outside.
const float* voxel(const GridSample3dF32& a, const float* volume, size_t plane, size_t row, size_t column) noexcept {
  if (plane == kOutside || row == kOutside || column == kOutside) return nullptr;
  return volume + ((plane * a.in_h + row) * a.in_w + column) * a.channels;
}

template <size_t kFixed>
void mix(const float* const (&corners)[kCorners], const float (&weights)[kCorners], size_t lanes,
         float* output) noexcept {
  const size_t count = kFixed == 0 ? lanes : kFixed;
  for (size_t c = 0; c < count; ++c) {
    float sum = corners[0][c] * weights[0];
    for (size_t i = 1; i < kCorners; ++i) sum = __builtin_fmaf(corners[i][c], weights[i], sum);
    output[c] = canonical(sum);
  }
}

void bilinear(const GridSample3dF32& a, const float* volume, const BlockAxis& x, const BlockAxis& y, const BlockAxis& z,
              size_t i, float* output) noexcept {
  const size_t columns[2] = {position(x.low[i], a.in_w), position(x.low[i] + 1.0f, a.in_w)};
  const size_t rows[2] = {position(y.low[i], a.in_h), position(y.low[i] + 1.0f, a.in_h)};
  const size_t planes[2] = {position(z.low[i], a.in_d), position(z.low[i] + 1.0f, a.in_d)};
  const float across[2] = {1.0f - x.share[i], x.share[i]};
  const float down[2] = {1.0f - y.share[i], y.share[i]};
  const float deep[2] = {1.0f - z.share[i], z.share[i]};
  const float* corners[kCorners];
  float weights[kCorners];
  for (size_t corner = 0; corner < kCorners; ++corner) {
    const size_t right = corner & 1, lower = corner >> 1 & 1, behind = corner >> 2;
    weights[corner] = across[right] * down[lower] * deep[behind];
    corners[corner] = voxel(a, volume, planes[behind], rows[lower], columns[right]);
    if (corners[corner] == nullptr) weights[corner] = 0.0f;  // of a coordinate that is no number it is none
  }
  for (size_t first = 0; first < a.channels; first += kChannels) {
    const size_t lanes = a.channels - first < kChannels ? a.channels - first : kChannels;
    const float* read[kCorners];
    for (size_t corner = 0; corner < kCorners; ++corner) {
      read[corner] = corners[corner] == nullptr ? kZeros : corners[corner] + first;
    }
    if (lanes == kColors) {
      mix<kColors>(read, weights, lanes, output + first);
    } else {
      mix<0>(read, weights, lanes, output + first);
    }
  }
}

void nearest(const GridSample3dF32& a, const float* volume, const BlockAxis& x, const BlockAxis& y, const BlockAxis& z,
             size_t i, float* output) noexcept {
  const float* found =
      voxel(a, volume, position(z.low[i], a.in_d), position(y.low[i], a.in_h), position(x.low[i], a.in_w));
  if (found == nullptr) {
    std::memset(output, 0, a.channels * sizeof(float));
  } else {
    std::memcpy(output, found, a.channels * sizeof(float));
  }
}

void sample(const GridSample3dF32& a) noexcept {
  const float* grid = a.grid;
  float* output = a.output;
  BlockAxis x, y, z;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    const float* volume = a.input + batch * a.in_d * a.in_h * a.in_w * a.channels;
    for (size_t first = 0; first < a.points; first += kBlock) {
      const size_t points = a.points - first < kBlock ? a.points - first : kBlock;
      find(grid, 0, points, a.in_w, a, x);
      find(grid, 1, points, a.in_h, a, y);
      find(grid, 2, points, a.in_d, a, z);
      for (size_t i = 0; i < points; ++i, output += a.channels) {
        if (a.mode == GridMode::kNearest) {
          nearest(a, volume, x, y, z, i, output);
        } else {
          bilinear(a, volume, x, y, z, i, output);
        }
      }
      grid += 3 * points;
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(grid_sample3d_f32)(const GridSample3dF32& a) noexcept { sample(a); }

}  // namespace alcove::kernels
