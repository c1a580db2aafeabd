// The only conv2d: it copies, `linear` computes.
#include "kernels/conv2d/conv2d.h"

#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

struct Pixel {
  size_t batch, row, column;
};

Pixel pixel_at(const Conv2dF32& a, size_t index) noexcept {
  return {index / (a.out_w * a.out_h), index / a.out_w % a.out_h, index % a.out_w};
}

// One kernel row of a patch: kernel_w * in_c floats.  `line` is the input's row, null outside the input.
void gather_row(const Conv2dF32& a, const float* line, int64_t left, size_t group, float* patch) noexcept {
  if (line == nullptr) {
    std::memset(patch, 0, a.kernel_w * a.in_c * sizeof(float));
    return;
  }
  const size_t channels = a.groups * a.in_c;
  const int64_t width = static_cast<int64_t>(a.in_w);
  if (a.groups == 1 && a.dilation_w == 1 && left >= 0 && left + static_cast<int64_t>(a.kernel_w) <= width) {
    std::memcpy(patch, line + static_cast<size_t>(left) * channels, a.kernel_w * channels * sizeof(float));
    return;
  }
  for (size_t tap = 0; tap < a.kernel_w; ++tap, patch += a.in_c) {
    const int64_t column = left + static_cast<int64_t>(tap * a.dilation_w);
    if (column < 0 || column >= width) {
      std::memset(patch, 0, a.in_c * sizeof(float));
    } else {
      std::memcpy(patch, line + static_cast<size_t>(column) * channels + group * a.in_c, a.in_c * sizeof(float));
    }
  }
}

void gather(const Conv2dF32& a, size_t first, size_t count, size_t group) noexcept {
  const size_t patch_row = a.kernel_w * a.in_c;
  const size_t line_floats = a.in_w * a.groups * a.in_c;
  float* patch = a.scratch;
  Pixel pixel = pixel_at(a, first);
  for (size_t i = 0; i < count; ++i) {
    const int64_t top = static_cast<int64_t>(pixel.row * a.stride_h) - static_cast<int64_t>(a.pad_top);
    const int64_t left = static_cast<int64_t>(pixel.column * a.stride_w) - static_cast<int64_t>(a.pad_left);
    for (size_t tap = 0; tap < a.kernel_h; ++tap, patch += patch_row) {
      const int64_t row = top + static_cast<int64_t>(tap * a.dilation_h);
      const bool is_inside = row >= 0 && row < static_cast<int64_t>(a.in_h);
      const float* line =
          is_inside ? a.input + (pixel.batch * a.in_h + static_cast<size_t>(row)) * line_floats : nullptr;
      gather_row(a, line, left, group, patch);
    }
    if (++pixel.column == a.out_w) {
      pixel.column = 0;
      if (++pixel.row == a.out_h) {
        pixel.row = 0;
        ++pixel.batch;
      }
    }
  }
}

void finish(const Conv2dF32& a, size_t first, size_t count) noexcept {
  const size_t channels = a.groups * a.out_c;
  float* y = a.output + first * channels;
  if (a.residual != nullptr) {
    const float* residual = a.residual + first * channels;
    for (size_t i = 0; i < count * channels; ++i) y[i] = canonical(y[i] + residual[i]);
  }
  if (a.is_clamped) {
    for (size_t i = 0; i < count * channels; ++i) {
      const float raised = y[i] < a.low ? a.low : y[i];
      y[i] = raised > a.high ? a.high : raised;
    }
  }
}

}  // namespace

void conv2d_f32_reference(const Conv2dF32& a) noexcept {
  const size_t patch = a.kernel_h * a.kernel_w * a.in_c;
  const size_t block = conv2d_block_pixels(patch);
  const size_t pixels = a.batch * a.out_h * a.out_w;
  const size_t channels = a.groups * a.out_c;
  const size_t panel_floats = (a.out_c + 15) / 16 * (patch + 1) * 16;
  const bool reads_in_place = a.kernel_h == 1 && a.kernel_w == 1 && a.groups == 1 && a.stride_h == 1 && a.stride_w == 1 &&
                              a.pad_top == 0 && a.pad_left == 0 && a.out_h == a.in_h && a.out_w == a.in_w;
  float* const columns = a.scratch + block * patch;
  for (size_t first = 0; first < pixels; first += block) {
    const size_t count = pixels - first < block ? pixels - first : block;
    for (size_t group = 0; group < a.groups; ++group) {
      const float* input = a.scratch;
      if (reads_in_place) {
        input = a.input + first * patch;
      } else {
        gather(a, first, count, group);
      }
      float* output = a.groups == 1 ? a.output + first * channels : columns;
      a.linear({input, a.panels + group * panel_floats, output, count, a.out_c, patch});
      if (a.groups == 1) continue;
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(a.output + (first + i) * channels + group * a.out_c, columns + i * a.out_c, a.out_c * sizeof(float));
      }
    }
    finish(a, first, count);
  }
}

}  // namespace alcove::kernels
