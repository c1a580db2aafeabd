// Mixes two images by a matte: back + m * (front - back), each step rounded, as a subtraction, a product and a sum would.
//
// The matte has one number a pixel.  Resized, m is what resize2d with kBilinear makes of it (resize2d.h).  A NaN that is computed comes
// out as 0x7FC00000.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, steps are finite and not negative, a matte that
// is not resized has the images' height and width; the output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct CompositeF32 {
  const float* back;   // [batch][channels][height][width], or [batch][height][width][channels]
  const float* front;  // like back
  const float* matte;  // [batch][matte_h][matte_w]
  float* output;       // like back
  size_t batch, channels, height, width, matte_h, matte_w;
  bool is_channels_last, is_resized, align_corners;
  float step_h, step_w;
};

using CompositeF32Kernel = void(const CompositeF32&) noexcept;

CompositeF32Kernel composite_f32_scalar, composite_f32_avx2, composite_f32_avx512, composite_f32_neon;

}  // namespace alcove::kernels
