// The loops of grid sampling, over channels innermost; the compiler makes vectors of them for each instruction set.
#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/cubic.h"
#include "kernels/microkernels/grid_sample/axis.h"
#include "kernels/microkernels/grid_sample/grid_sample.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

constexpr size_t kChannels = 32;
constexpr float kZeros[kChannels] = {};

// One dimension: up to four positions (kOutside: no tap) and their weights.
struct Axis {
  size_t at[4];
  float weight[4];
};

float apply_padding(float s, size_t size, GridPadding padding, bool align_corners) noexcept {
  if (padding == GridPadding::kZeros) return s;
  return hold(padding == GridPadding::kReflection ? reflect(s, size, align_corners) : s, size);
}

Axis linear_axis(float s, size_t size) noexcept {
  const float i = __builtin_floorf(s);
  const float f = s - i;
  return {{position(i, size), position(i + 1.0f, size), kOutside, kOutside}, {1.0f - f, f, 0.0f, 0.0f}};
}

Axis cubic_axis(float s, size_t size, GridPadding padding, bool align_corners) noexcept {
  const float i = __builtin_floorf(s);
  Axis axis;
  cubic_weights(s - i, axis.weight);
  for (int t = 0; t < 4; ++t) {
    const float tap = apply_padding(i + static_cast<float>(t - 1), size, padding, align_corners);
    axis.at[t] = position(__builtin_nearbyintf(tap), size);
  }
  return axis;
}

const float* tap(const GridSampleF32& a, const float* image, size_t row, size_t column, size_t first) noexcept {
  if (row == kOutside || column == kOutside) return kZeros;
  return image + (row * a.in_w + column) * a.channels + first;
}

void bilinear(const GridSampleF32& a, const float* image, const Axis& x, const Axis& y, float* output) noexcept {
  const float nw = x.weight[0] * y.weight[0], ne = x.weight[1] * y.weight[0];
  const float sw = x.weight[0] * y.weight[1], se = x.weight[1] * y.weight[1];
  for (size_t first = 0; first < a.channels; first += kChannels) {
    const size_t lanes = a.channels - first < kChannels ? a.channels - first : kChannels;
    const float *p_nw = tap(a, image, y.at[0], x.at[0], first), *p_ne = tap(a, image, y.at[0], x.at[1], first);
    const float *p_sw = tap(a, image, y.at[1], x.at[0], first), *p_se = tap(a, image, y.at[1], x.at[1], first);
    for (size_t c = 0; c < lanes; ++c) {
      float sum = __builtin_fmaf(p_ne[c], ne, p_nw[c] * nw);
      sum = __builtin_fmaf(p_se[c], se, __builtin_fmaf(p_sw[c], sw, sum));
      output[first + c] = canonical(sum);
    }
  }
}

void bicubic(const GridSampleF32& a, const float* image, const Axis& x, const Axis& y, float* output) noexcept {
  for (size_t first = 0; first < a.channels; first += kChannels) {
    const size_t lanes = a.channels - first < kChannels ? a.channels - first : kChannels;
    float sum[kChannels];
    for (int row = 0; row < 4; ++row) {
      const float* p[4];
      for (int t = 0; t < 4; ++t) p[t] = tap(a, image, y.at[row], x.at[t], first);
      for (size_t c = 0; c < lanes; ++c) {
        float across = p[0][c] * x.weight[0];
        for (int t = 1; t < 4; ++t) across = __builtin_fmaf(p[t][c], x.weight[t], across);
        sum[c] = row == 0 ? across * y.weight[0] : __builtin_fmaf(across, y.weight[row], sum[c]);
      }
    }
    for (size_t c = 0; c < lanes; ++c) output[first + c] = canonical(sum[c]);
  }
}

void nearest(const GridSampleF32& a, const float* image, float x, float y, float* output) noexcept {
  const size_t column = position(__builtin_nearbyintf(x), a.in_w), row = position(__builtin_nearbyintf(y), a.in_h);
  if (row == kOutside || column == kOutside) {
    std::memset(output, 0, a.channels * sizeof(float));
  } else {
    std::memcpy(output, image + (row * a.in_w + column) * a.channels, a.channels * sizeof(float));
  }
}

void sample(const GridSampleF32& a) noexcept {
  const float* grid = a.grid;
  float* output = a.output;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    const float* image = a.input + batch * a.in_h * a.in_w * a.channels;
    for (size_t point = 0; point < a.out_h * a.out_w; ++point, grid += 2, output += a.channels) {
      const float x = unnormalize(grid[0], a.in_w, a.align_corners);
      const float y = unnormalize(grid[1], a.in_h, a.align_corners);
      if (a.mode == GridMode::kBicubic) {
        bicubic(a, image, cubic_axis(x, a.in_w, a.padding, a.align_corners),
                cubic_axis(y, a.in_h, a.padding, a.align_corners), output);
        continue;
      }
      const float column = apply_padding(x, a.in_w, a.padding, a.align_corners);
      const float row = apply_padding(y, a.in_h, a.padding, a.align_corners);
      if (a.mode == GridMode::kNearest) {
        nearest(a, image, column, row, output);
      } else {
        bilinear(a, image, linear_axis(column, a.in_w), linear_axis(row, a.in_h), output);
      }
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(grid_sample_f32)(const GridSampleF32& a) noexcept { sample(a); }

}  // namespace alcove::kernels
