// Two-dimensional convolution in int8, NHWC.  For output pixel (oh, ow) and output n of group g:
//   acc = bias[n] + sum over kernel row, kernel column and input channel of x * w, in int32, with
//   x = input[oh * stride_h - pad_top + row * dilation_h][ow * stride_w - pad_left + column * dilation_w][g * in_c + c];
//   a tap outside the input takes part with x = input_zero_point, which stands for 0;
//   output = requantize(float(acc) * scale[n])                    (kernels/requantize.h has the rule and the panels)
// The panels' int32 is the bias in units of input scale * weight scale, less input zero point * sum of weights.
//
// Patches of a block of output pixels are gathered into scratch, and linear_i8 multiplies them.  A 1x1 kernel without
// stride, padding or groups reads the input where it lies.  Kernels for one instruction set need no patches where the input has
// few channels, and leave the rest to conv2d_i8_scalar.
//
// Panels are those of linear_i8, one set a group, with k = kernel_h * kernel_w * in_c.
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, k <= 65,536, zero points in
// [-128, 127], -128 <= low <= high <= 127; the output overlaps no input; scratch has conv2d_i8_scratch_bytes.  Any number of
// threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear_i8/linear_i8.h"

namespace alcove::kernels {

struct Conv2dI8 {
  const int8_t* input;  // [batch][in_h][in_w][groups * in_c]
  const int8_t* panels;
  int8_t* output;  // [batch][out_h][out_w][groups * out_c]
  int8_t* scratch;
  LinearI8Kernel* linear;
  size_t batch, in_h, in_w, in_c, out_h, out_w, out_c, groups;  // in_c and out_c: of one group
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  int32_t input_zero_point, zero_point, low, high;
};

using Conv2dI8Kernel = void(const Conv2dI8&) noexcept;

Conv2dI8Kernel conv2d_i8_scalar, conv2d_i8_avx512_vnni_8x32;

// Output pixels that are multiplied at a time.
inline constexpr size_t kConv2dI8Block = 64;

// A patch in scratch: whole groups of 4, as the weights are.
constexpr size_t conv2d_i8_patch_bytes(size_t patch) noexcept { return (patch + 3) / 4 * 4; }

// patch = kernel_h * kernel_w * in_c, at most 65,536.
constexpr size_t conv2d_i8_scratch_bytes(size_t patch) noexcept {
  return kConv2dI8Block * conv2d_i8_patch_bytes(patch);
}

}  // namespace alcove::kernels
