// Two-dimensional convolution, NHWC.  For output pixel (oh, ow) of group g:
//   y[n] = bias[n], then y[n] = fma(x, w, y[n]) for kernel row, kernel column and input channel, in this order, with
//   x = input[oh * stride_h - pad_top + row * dilation_h][ow * stride_w - pad_left + column * dilation_w][g * in_c + c];
//   a tap outside the input takes part with x = +0;
//   then the residual and the activation, as in linear.
// A NaN comes out as 0x7FC00000.
//
// `linear` multiplies.  It reads the input where it lies, kernel row by kernel row, wherever a row of output pixels looks at
// nothing outside the input, or tap by tap where a kernel's columns do not lie side by side; other patches are gathered into scratch,
// a block of pixels at a time.  With up to 4 outputs and lines that are long enough, rows of the input become planes in scratch, and
// `narrow` multiplies.
//
// Panels are those of linear, one set a group: [groups][ceil(out_c/16)][kernel_h * kernel_w * in_c + 1][16].  Or, with `of_groups`, which
// then multiplies, what kernels/microkernels/conv2d_groups reads.
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, low <= high; the output overlaps
// no input, the residual neither; scratch has conv2d_scratch_bytes.  Any number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/microkernels/conv2d_groups/conv2d_groups.h"
#include "kernels/microkernels/conv2d_narrow/conv2d_narrow.h"
#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

struct Conv2dF32 {
  const float* input;     // [batch][in_h][in_w][groups * in_c]
  const float* panels;    // see above
  const float* residual;  // as the output, or null
  float* output;          // [batch][out_h][out_w][groups * out_c]
  float* scratch;         // aligned to a size_t
  size_t scratch_bytes;   // conv2d_scratch_bytes or more: what is more holds more patches at a time
  LinearF32Kernel* linear;
  Conv2dNarrowKernel* narrow;
  Conv2dGroupsKernel* of_groups;                                // or null
  size_t batch, in_h, in_w, in_c, out_h, out_w, out_c, groups;  // in_c and out_c: of one group
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  Activated activation;
};

using Conv2dF32Kernel = void(const Conv2dF32&) noexcept;

Conv2dF32Kernel conv2d_f32_scalar;

inline constexpr size_t kMostPatches = 64;

// Output pixels that are multiplied at a time, at least: patches of 64 pixels, fewer where they would fill more than 128 KiB.
constexpr size_t conv2d_block_pixels(size_t patch) noexcept {
  constexpr size_t kScratchFloats = 32768;
  const size_t fitting = kScratchFloats / patch / 4 * 4;
  return fitting > kMostPatches ? kMostPatches : fitting < 4 ? 4 : fitting;
}

struct Conv2dSizes {
  size_t in_c, out_w, out_c, groups, kernel_h, kernel_w, stride_w, dilation_h, dilation_w;
};

// Whether lanes may be pixels, which pays from 16 pixels on.
constexpr bool conv2d_is_narrow(const Conv2dSizes& s) noexcept {
  return s.groups == 1 && s.out_c <= kNarrowOutputs && s.kernel_w > 1 && s.stride_w == 1 && s.dilation_h == 1 &&
         s.dilation_w == 1;
}

// Floats of a plane: one line of one channel, with what is left and right of it.
constexpr size_t conv2d_plane_floats(const Conv2dSizes& s) noexcept {
  return (s.out_w + s.kernel_w - 1 + kNarrowPixels + 15) / 16 * 16;
}

// Patches of one block, and kernel_h lines of planes, a plane of zeros and where the planes are: enough for either way, so
// that a lesser size never takes more.  Sizes are below 2^31; of a type that notices overflow.
template <typename Size>
constexpr Size conv2d_scratch_bytes(const Conv2dSizes& s, size_t patch) noexcept {
  const Size block(conv2d_block_pixels(patch) * patch * sizeof(float));
  if (!conv2d_is_narrow(s)) return block;
  return block + (Size(s.kernel_h) * s.in_c + 1) * conv2d_plane_floats(s) * sizeof(float) +
         Size(s.kernel_h) * s.in_c * sizeof(size_t);
}

}  // namespace alcove::kernels
