// Two-dimensional convolution, NHWC.  For output pixel (oh, ow) of group g:
//   y[n] = bias[n], then y[n] = fma(x, w, y[n]) for kernel row, kernel column and input channel, in this order, with
//   x = input[oh * stride_h - pad_top + row * dilation_h][ow * stride_w - pad_left + column * dilation_w][g * in_c + c];
//   a tap outside the input takes part with x = +0;
//   then y = y + residual (if there is one), then y = low if y < low, high if y > high (if it is clamped; NaN stays).
// A NaN comes out as 0x7FC00000.
//
// Patches of a block of output pixels are gathered into scratch, and `linear` multiplies them.  A 1x1 kernel without
// stride, padding or groups reads the input where it lies.
//
// Panels are those of linear, one set a group: [groups][ceil(out_c/16)][kernel_h * kernel_w * in_c + 1][16].
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, low <= high; the output overlaps
// no input, the residual neither; scratch has conv2d_scratch_bytes.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/linear/linear.h"

namespace alcove::kernels {

struct Conv2dF32 {
  const float* input;     // [batch][in_h][in_w][groups * in_c]
  const float* panels;    // see above
  const float* residual;  // as the output, or null
  float* output;          // [batch][out_h][out_w][groups * out_c]
  float* scratch;         // aligned to a float
  LinearF32Kernel* linear;
  size_t batch, in_h, in_w, in_c, out_h, out_w, out_c, groups;  // in_c and out_c: of one group
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  bool is_clamped;
  float low, high;
};

using Conv2dF32Kernel = void(const Conv2dF32&) noexcept;

Conv2dF32Kernel conv2d_f32_reference;

// Output pixels that are multiplied at a time: patches of 64 pixels, fewer where they would fill more than 128 KiB.
constexpr size_t conv2d_block_pixels(size_t patch) noexcept {
  constexpr size_t kScratchFloats = 32768;
  const size_t fitting = kScratchFloats / patch / 4 * 4;
  return fitting > 64 ? 64 : fitting < 4 ? 4 : fitting;
}

// Patches and, for groups, the outputs of one block; patch = kernel_h * kernel_w * in_c.  Below 2^63 for patch and out_c
// below 2^31.
constexpr size_t conv2d_scratch_bytes(size_t patch, size_t out_c, size_t groups) noexcept {
  return conv2d_block_pixels(patch) * (patch + (groups > 1 ? out_c : 0)) * sizeof(float);
}

}  // namespace alcove::kernels
