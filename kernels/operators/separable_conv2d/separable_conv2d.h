// A depthwise convolution between two 1x1 convolutions, or before one, NHWC: e = expand(x), d = depthwise(e), y = project(d) +
// residual.  Each step computes what conv2d and depthwise_conv2d compute, with its own activation, to the same bits; but `rows`
// rows of the output are made at a time, so that of e and d only a few lines exist, which stay in the cache, and never an image.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, low <= high, paddings are less than the
// kernel, so that every row of the output looks at a line of the input; the output overlaps
// no input, the residual neither; scratch has separable_scratch_bytes.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/microkernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

struct SeparableConv2dF32 {
  const float* input;      // [batch][in_h][in_w][in_c]
  const float* expand;     // panels [ceil(channels/16)][in_c + 1][16], or null: e is x, in_c is channels
  const float* depthwise;  // [1 + kernel_h * kernel_w][channels]
  const float* project;    // panels [ceil(out_c/16)][channels + 1][16]
  const float* residual;   // as the output, or null
  float* output;           // [batch][out_h][out_w][out_c]
  float* scratch;
  LinearF32Kernel* linear;
  DepthwiseConv2dF32Kernel* depthwise_conv2d;
  size_t batch, in_h, in_w, in_c, channels, out_h, out_w, out_c, rows;
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  Activated after_expand, after_depthwise, activation;
};

using SeparableConv2dF32Kernel = void(const SeparableConv2dF32&) noexcept;

SeparableConv2dF32Kernel separable_conv2d_f32_scalar;

// Lines of e below so many rows of the output.
constexpr size_t separable_lines(size_t rows, size_t kernel_h, size_t stride_h) noexcept {
  return (rows - 1) * stride_h + kernel_h;
}

// Lines of e (none without expand) and rows of d.  For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size separable_scratch_bytes(bool has_expand, Size channels, Size in_w, Size out_w, size_t rows,
                                       size_t kernel_h, size_t stride_h) noexcept {
  const Size lines(has_expand ? separable_lines(rows, kernel_h, stride_h) : 0);
  return (lines * in_w + out_w * rows) * channels * sizeof(float);
}

}  // namespace alcove::kernels
