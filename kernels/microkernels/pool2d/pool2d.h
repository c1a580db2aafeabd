// Pooling of windows, NHWC, per channel.
//
// Windows of a dimension (rows shown; columns alike), for output o:
//   fixed:     taps o * stride - pad + t * dilation for t = 0 ... kernel - 1, those inside the input;
//   adaptive:  taps floor(o * in / out) ... ceil((o + 1) * in / out) - 1.
// max:      y = -inf, then y = x where x > y or x is a NaN, for rows and columns in order; y is -inf for no taps.
// average:  y = +0, then y = y + x in the same order, then y / count.  count is `divisor` if that is not 0; the number of taps,
//           without those in the padding unless counts_padding (which counts up to `pad` beyond the end of the input, and
//           nothing after it); y is +0 for no taps.
// indices:  row * in_w + column of the tap that max took last; that of the first tap inside if it took none.
// A NaN comes out as 0x7FC00000.  As torch's max_pool2d, avg_pool2d and adaptive_*_pool2d.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, an average is not dilated; the
// output overlaps no input.  No pointer needs more alignment than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct PoolWindows {
  size_t batch, in_h, in_w, channels, out_h, out_w;
  bool is_adaptive;  // the rest is not used then
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

struct Pool2dF32 {
  const float* input;  // [batch][in_h][in_w][channels]
  float* output;       // [batch][out_h][out_w][channels]
  PoolWindows windows;
  bool is_average, counts_padding;
  int64_t divisor;
};

struct MaxPool2dIndicesF32 {
  const float* input;  // [batch][in_h][in_w][channels]
  int64_t* output;     // [batch][out_h][out_w][channels]
  PoolWindows windows;
};

using Pool2dF32Kernel = void(const Pool2dF32&) noexcept;
using MaxPool2dIndicesF32Kernel = void(const MaxPool2dIndicesF32&) noexcept;

Pool2dF32Kernel pool2d_f32_scalar, pool2d_f32_avx2, pool2d_f32_avx512, pool2d_f32_neon;
MaxPool2dIndicesF32Kernel max_pool2d_indices_f32_scalar;

}  // namespace alcove::kernels
