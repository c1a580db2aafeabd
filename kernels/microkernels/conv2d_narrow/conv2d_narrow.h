// A row of a convolution with few outputs, where lanes are neighbouring pixels: panels of 16 outputs would be mostly empty.
// The input's rows lie as planes: what is at base + planes[kernel row * in_c + channel] is what output pixel 0 looks at first,
// and what its neighbours look at side by side; each has pixels + kernel_w - 1 floats and may be read up to 63 floats further.
//
// The numbers, and their order, are those of conv2d.
#pragma once

#include <cstddef>

#include "kernels/activation.h"

namespace alcove::kernels {

inline constexpr size_t kNarrowOutputs = 4;
inline constexpr size_t kNarrowPixels = 64;  // of a tile; what planes are padded to

struct Conv2dNarrowRow {
  const float* base;
  const size_t* planes;   // [kernel_h * in_c], floats from the base
  const float* panel;     // [kernel_h * kernel_w * in_c + 1][16]
  const float* residual;  // as the output, or null
  float* output;          // [pixels][out_c]
  // Each is at least 1.
  size_t pixels, in_c, out_c, kernel_h, kernel_w;
  Activated activation;
};

using Conv2dNarrowKernel = void(const Conv2dNarrowRow&) noexcept;

Conv2dNarrowKernel conv2d_narrow_scalar, conv2d_narrow_avx2, conv2d_narrow_avx512, conv2d_narrow_neon;

}  // namespace alcove::kernels
