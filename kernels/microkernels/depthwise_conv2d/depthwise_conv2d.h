// Convolution of each channel by itself, NHWC.  For output channel o = c * multiplier + j of output pixel (oh, ow):
//   y = weights[0][o], then y = fma(x, weights[1 + row * kernel_w + column][o], y) for kernel row and column, in order, with
//   x = input[oh * stride_h - pad_top + row * dilation_h][ow * stride_w - pad_left + column * dilation_w][c];
//   a tap outside the input takes part with x = +0;
//   then the activation, as in linear.
// A NaN comes out as 0x7FC00000.  No pointer needs more alignment than a float.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, low <= high; the output overlaps
// no input.  Any number of threads.
#pragma once

#include <cstddef>

#include "kernels/activation.h"

namespace alcove::kernels {

struct DepthwiseConv2dF32 {
  const float* input;    // [batch][in_h][in_w][channels]
  const float* weights;  // [1 + kernel_h * kernel_w][channels * multiplier], row 0 the bias
  float* output;         // [batch][out_h][out_w][channels * multiplier]
  size_t batch, in_h, in_w, channels, multiplier, out_h, out_w;
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  Activated activation;
};

using DepthwiseConv2dF32Kernel = void(const DepthwiseConv2dF32&) noexcept;

DepthwiseConv2dF32Kernel depthwise_conv2d_f32_scalar, depthwise_conv2d_f32_avx2, depthwise_conv2d_f32_avx512,
    depthwise_conv2d_f32_neon, depthwise_conv2d_f32_neon_4x4;

}  // namespace alcove::kernels
