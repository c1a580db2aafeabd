// The only conv_transpose2d: it copies, `linear` computes.
#include "kernels/operators/conv_transpose2d/conv_transpose2d.h"

#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

// One phase of one dimension: outputs first, first + stride, ...; taps with tap * dilation % stride == phase.
struct Axis {
  size_t first, count, taps;
};

Axis make_axis(size_t phase, size_t out, size_t pad, size_t stride, size_t kernel, size_t dilation) noexcept {
  const size_t first = (phase + stride - pad % stride) % stride;
  size_t taps = 0;
  for (size_t tap = 0; tap < kernel; ++tap) taps += tap * dilation % stride == phase ? 1u : 0u;
  return {first, first < out ? (out - first + stride - 1) / stride : 0, taps};
}

struct Phase {
  size_t row, column;
  Axis rows, columns;
};

// Where tap `tap` reads for output `out`, exact as the phases agree; may lie outside the input.
int64_t source(size_t out, size_t pad, size_t tap, size_t dilation, size_t stride) noexcept {
  return (static_cast<int64_t>(out + pad) - static_cast<int64_t>(tap * dilation)) / static_cast<int64_t>(stride);
}

struct Pixel {
  size_t batch, row, column;
};

Pixel pixel_at(const ConvTranspose2dF32& a, const Phase& phase, size_t index) noexcept {
  const size_t plane = phase.rows.count * phase.columns.count;
  return {index / plane, phase.rows.first + index % plane / phase.columns.count * a.stride_h,
          phase.columns.first + index % phase.columns.count * a.stride_w};
}

void gather_pixel(const ConvTranspose2dF32& a, const Phase& phase, const Pixel& at, size_t group,
                  float* patch) noexcept {
  const size_t channels = a.groups * a.in_c;
  for (size_t tap_row = 0; tap_row < a.kernel_h; ++tap_row) {
    if (tap_row * a.dilation_h % a.stride_h != phase.row) continue;
    const int64_t row = source(at.row, a.pad_top, tap_row, a.dilation_h, a.stride_h);
    const bool is_row = row >= 0 && row < static_cast<int64_t>(a.in_h);
    for (size_t tap = 0; tap < a.kernel_w; ++tap) {
      if (tap * a.dilation_w % a.stride_w != phase.column) continue;
      const int64_t column = source(at.column, a.pad_left, tap, a.dilation_w, a.stride_w);
      if (is_row && column >= 0 && column < static_cast<int64_t>(a.in_w)) {
        const size_t pixel = (at.batch * a.in_h + static_cast<size_t>(row)) * a.in_w + static_cast<size_t>(column);
        std::memcpy(patch, a.input + pixel * channels + group * a.in_c, a.in_c * sizeof(float));
      } else {
        std::memset(patch, 0, a.in_c * sizeof(float));
      }
      patch += a.in_c;
    }
  }
}

void run_phase(const ConvTranspose2dF32& a, const Phase& phase, size_t group, const float* panels) noexcept {
  const size_t patch = phase.rows.taps * phase.columns.taps * a.in_c;
  const size_t most = a.kernel_h * a.kernel_w * a.in_c;
  const size_t block = conv2d_block_pixels(most);
  float* const columns = a.scratch + block * most;
  const size_t pixels = a.batch * phase.rows.count * phase.columns.count;
  for (size_t first = 0; first < pixels; first += block) {
    const size_t count = pixels - first < block ? pixels - first : block;
    if (patch > 0) {
      for (size_t i = 0; i < count; ++i) {
        gather_pixel(a, phase, pixel_at(a, phase, first + i), group, a.scratch + i * patch);
      }
      a.linear({a.scratch, panels, columns, count, a.out_c, patch});
    } else {  // no tap reaches these pixels; the panels are the bias alone
      for (size_t i = 0; i < count * a.out_c; ++i) columns[i] = canonical(panels[i % a.out_c]);
    }
    for (size_t i = 0; i < count; ++i) {
      const Pixel at = pixel_at(a, phase, first + i);
      const size_t pixel = (at.batch * a.out_h + at.row) * a.out_w + at.column;
      std::memcpy(a.output + (pixel * a.groups + group) * a.out_c, columns + i * a.out_c, a.out_c * sizeof(float));
    }
  }
}

}  // namespace

void conv_transpose2d_f32_scalar(const ConvTranspose2dF32& a) noexcept {
  const float* panels = a.weights;
  for (size_t group = 0; group < a.groups; ++group) {
    for (size_t row = 0; row < a.stride_h; ++row) {
      for (size_t column = 0; column < a.stride_w; ++column) {
        const Phase phase{row, column, make_axis(row, a.out_h, a.pad_top, a.stride_h, a.kernel_h, a.dilation_h),
                          make_axis(column, a.out_w, a.pad_left, a.stride_w, a.kernel_w, a.dilation_w)};
        if (phase.rows.count > 0 && phase.columns.count > 0) run_phase(a, phase, group, panels);
        panels += (a.out_c + 15) / 16 * (phase.rows.taps * phase.columns.taps * a.in_c + 1) * 16;
      }
    }
  }
}

}  // namespace alcove::kernels
