// A row of a convolution in groups of 4 or 8 channels, with as many outputs: groups lie side by side in a vector of 16 outputs, which
// panels of one group would leave mostly empty.  The numbers, and their order, are those of conv2d.
//
// The caller has checked: conv2d_shares_lanes, sizes are at least 1, the output overlaps no input, the residual neither.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/long_sum.h"

namespace alcove::kernels {

inline constexpr size_t kGroupLanes = 16;

struct Conv2dGroupsRow {
  const float* input;     // an image [in_h][in_w][channels]
  const float* weights;   // [channels / 16][kernel_h * kernel_w * width + 1][16], row 0 the bias
  const float* residual;  // as the output, or null
  float* output;          // [out_w][channels]
  int64_t top;            // the row that the first kernel row looks at, which may be outside the image, as others may
  size_t in_h, in_w, out_w, channels, width;
  size_t kernel_h, kernel_w, stride_w, pad_left, dilation_h, dilation_w;
  Activated activation;
};

using Conv2dGroupsKernel = void(const Conv2dGroupsRow&) noexcept;

Conv2dGroupsKernel conv2d_groups_scalar, conv2d_groups_avx2, conv2d_groups_avx512, conv2d_groups_neon;

// Whether groups of so many inputs and outputs, with so many numbers in a patch, have this form.
constexpr bool conv2d_shares_lanes(size_t groups, size_t in_c, size_t out_c, size_t patch) noexcept {
  return in_c == out_c && (in_c == 4 || in_c == 8) && groups * in_c % kGroupLanes == 0 && patch <= kLongestChain;
}

}  // namespace alcove::kernels
