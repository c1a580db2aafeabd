// Transposed two-dimensional convolution, NHWC, as a gather.  For output pixel (oh, ow) of group g:
//   y[n] = bias[n], then y[n] = fma(x, w, y[n]) for those kernel rows and columns, in order, with
//     oh + pad_top - row * dilation_h divisible by stride_h (and the same for columns), and for each input channel, with
//   x = input[(oh + pad_top - row * dilation_h) / stride_h][the same for columns][g * in_c + c];
//   such a tap outside the input takes part with x = +0.
// A NaN comes out as 0x7FC00000.
//
// Which taps these are depends only on the phase ((oh + pad_top) % stride_h, (ow + pad_left) % stride_w): a phase is a
// convolution of its own.  Its patches are gathered into scratch, `linear` multiplies them, and its pixels are scattered.
//
// Weights: for each group, for each phase in row-major order, panels of linear with the taps of this phase,
// [ceil(out_c/16)][taps * in_c + 1][16], bias first; conv_transpose2d_weight_floats in all.
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit; the output overlaps no input;
// scratch has conv_transpose2d_scratch_bytes.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/operators/conv2d/conv2d.h"
#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

struct ConvTranspose2dF32 {
  const float* input;    // [batch][in_h][in_w][groups * in_c]
  const float* weights;  // see above
  float* output;         // [batch][out_h][out_w][groups * out_c]
  float* scratch;        // aligned to a float
  LinearF32Kernel* linear;
  size_t batch, in_h, in_w, in_c, out_h, out_w, out_c, groups;  // in_c and out_c: of one group
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
};

using ConvTranspose2dF32Kernel = void(const ConvTranspose2dF32&) noexcept;

ConvTranspose2dF32Kernel conv_transpose2d_f32_scalar;

// Every tap belongs to one phase; every phase has a bias.  taps = kernel_h * kernel_w, phases = stride_h * stride_w.
constexpr size_t conv_transpose2d_weight_floats(size_t taps, size_t phases, size_t in_c, size_t out_c,
                                                size_t groups) noexcept {
  return groups * ((out_c + 15) / 16 * 16) * (taps * in_c + phases);
}

// Patches and outputs of one block; taps = kernel_h * kernel_w, of which a phase has no more.
constexpr size_t conv_transpose2d_scratch_bytes(size_t taps, size_t in_c, size_t out_c) noexcept {
  return conv2d_block_pixels(taps * in_c) * (taps * in_c + out_c) * sizeof(float);
}

}  // namespace alcove::kernels
