// Resizing of images, NHWC, as torch's interpolate without antialiasing.  All coordinates are float32.
//
// A dimension with `in` and `out` positions (rows shown; columns alike) has a step:
//   align_corners (bilinear, bicubic): (in - 1) / (out - 1), or 0 if out = 1
//   otherwise:                         float(1 / scale) if scale is above 0 (the host divides, in double), else in / out
// kNearest:       output o is input min(floor(o * step), in - 1)
// kNearestExact:  output o is input min(floor((o + 0.5) * step), in - 1)
// kBilinear:      s = o * step (align_corners) or max((o + 0.5) * step - 0.5, 0); i = min(floor(s), in - 1);
//                 j = min(i + 1, in - 1); f = min(max(s - i, 0), 1);
//                 columns first: x = fma(right, f, left * (1 - f)); then rows: y = fma(lower, f, upper * (1 - f)).
//                 Where in = out, i = j = o and f = 0; one row that stays one row is not gone through at all.
// kBicubic:       s as for kBilinear but not held at 0; i = floor(s), f = s - i; taps i - 1 ... i + 2, each held inside;
//                 weights of f are c(f + 1), d(f), d(1 - f), c(2 - f) with A = -0.75,
//                   d(t) = ((A + 2) t - (A + 3)) t t + 1,  c(t) = ((A t - 5 A) t + 8 A) t - 4 A (each step rounded);
//                 x = p0 * w0, then fma for taps 1 ... 3: columns first, then rows.
// A NaN that is computed comes out as 0x7FC00000; nearest moves bits.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, steps are finite and not
// negative, kNearest and kNearestExact have no align_corners; the output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

enum class ResizeMode { kNearest = 0, kNearestExact = 1, kBilinear = 2, kBicubic = 3 };

struct Resize2dF32 {
  const float* input;  // [batch][in_h][in_w][channels]
  float* output;       // [batch][out_h][out_w][channels]
  size_t batch, in_h, in_w, channels, out_h, out_w;
  ResizeMode mode;
  bool align_corners;
  float step_h, step_w;
};

using Resize2dF32Kernel = void(const Resize2dF32&) noexcept;

Resize2dF32Kernel resize2d_f32_scalar, resize2d_f32_avx2, resize2d_f32_avx512, resize2d_f32_neon;

// The step of a dimension, as above.  `scale` is 0 or between 1e-12 and 1e12.
float resize2d_step(size_t in, size_t out, bool align_corners, double scale) noexcept;

}  // namespace alcove::kernels
