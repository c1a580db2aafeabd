// Greatest element of each window, NHWC: over the taps oh * stride_h - pad_h + i * dilation_h, i < kernel_h, inside the
// input, columns alike; -128 where there is no tap.  Order-preserving, so scale and zero point are those of the input.
// The caller has checked: sizes are at least 1 and below 2^31, their products fit; the output overlaps no input.  Any number
// of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct MaxPool2dI8 {
  const int8_t* input;  // [batch][in_h][in_w][channels]
  int8_t* output;       // [batch][out_h][out_w][channels]
  size_t batch, in_h, in_w, channels, out_h, out_w;
  size_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

using MaxPool2dI8Kernel = void(const MaxPool2dI8&) noexcept;

MaxPool2dI8Kernel max_pool2d_i8_scalar, max_pool2d_i8_avx2, max_pool2d_i8_avx512, max_pool2d_i8_neon;

}  // namespace alcove::kernels
