// A 1x1 convolution of an image whose channels come first:
//   output[o][p] = weight[o][0] + sum over c of weight[o][1 + c] * input[c][p], then the activation.
// It is what `linear` computes of the rows of weight and of panels with the lines 1, input[0], input[1], ...: one accumulator per
// output, from +0, first the bias times 1, then the channels in order, fused multiply-add.  So it gives the values of `conv2d`, but
// that a bias of -0 is +0, and needs none of the two transposes that channels-last images cost where they come and go.  A NaN comes
// out as 0x7FC00000.
//
// The caller has checked: sizes are at least 1, a stride is at least `pixels`, low <= high; the output overlaps no input; scratch has
// pointwise_conv2d_scratch_floats.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

// Some pixels of an image.
struct PointwiseConv2dF32 {
  const float* input;   // [channels][pixels]
  const float* weight;  // [out_c][1 + channels], the bias first
  float* output;        // [out_c][pixels]
  float* scratch;
  LinearF32Kernel* linear;
  size_t pixels, stride;  // of this part; of the image, which is from channel to channel
  size_t channels, out_c;
  Activated activation;
};

using PointwiseConv2dF32Kernel = void(const PointwiseConv2dF32&) noexcept;

PointwiseConv2dF32Kernel pointwise_conv2d_f32_scalar;

inline constexpr size_t kPointwisePanels = 9;  // of pixels at a time: three of AVX-512's tiles

// For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size pointwise_conv2d_scratch_floats(size_t pixels, Size channels) noexcept {
  const size_t panels = (pixels + 15) / 16;
  return panel_floats<Size>(panels < kPointwisePanels ? panels : kPointwisePanels, channels + 1);
}

}  // namespace alcove::kernels
