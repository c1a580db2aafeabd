// Convolution of each channel by itself in int8, NHWC.  For channel c of output pixel (oh, ow):
//   acc = bias[c] + sum over kernel row and column of x * w, in int32, with
//   x = input[oh * stride_h - pad_top + row * dilation_h][ow * stride_w - pad_left + column * dilation_w][c];
//   a tap outside the input takes part with x = input_zero_point, which stands for 0;
//   output = requantize(float(acc) * scale[c])                                        (kernels/requantize.h has the rule)
//
// Weights are ceil(channels/16) panels: int32[16] biases less input zero point * sum of weights, float32[16] scales,
// int8[kernel_h * kernel_w][16]; zero beyond the channels.
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, kernel_h * kernel_w <= 65,536, zero
// points in [-128, 127], -128 <= low <= high <= 127; the output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct DepthwiseConv2dI8 {
  const int8_t* input;  // [batch][in_h][in_w][channels]
  const int8_t* panels;
  int8_t* output;  // [batch][out_h][out_w][channels]
  size_t batch, in_h, in_w, channels, out_h, out_w;
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  int32_t input_zero_point, zero_point, low, high;
};

using DepthwiseConv2dI8Kernel = void(const DepthwiseConv2dI8&) noexcept;

DepthwiseConv2dI8Kernel depthwise_conv2d_i8_scalar, depthwise_conv2d_i8_avx2_4x16, depthwise_conv2d_i8_avx512_4x16,
    depthwise_conv2d_i8_avx512_vnni_4x16, depthwise_conv2d_i8_neon_4x16;

[[nodiscard]] constexpr size_t depthwise_panel_bytes_i8(size_t taps) noexcept { return 128 + 16 * taps; }

}  // namespace alcove::kernels
