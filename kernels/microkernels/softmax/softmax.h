// output[row][i] = exp(input[row][i] - max(row)) / sum of those, over the last dimension; or the logarithm of it, which is
// (input[row][i] - max(row)) - log(sum), with log_f64 of kernels/math and one rounding of it to float32.
//
// The exponential is a polynomial of our own (kernels/math/exp.h) and the sum is one fixed tree of 16 lanes, which begin anew with each 1,024
// elements and go to the levels of kernels/long_sum.h, so every instruction set gives the same bits.  With `sums`, the exponentials stay undivided and their sums go there; inputs are multiplied by `scale`
// first, which is rounded.  A row with a NaN, with +inf, or of -inf alone gives 0x7FC00000 everywhere, as in torch it gives NaN.
//
// The caller has checked: sizes are at least 1; input and output are the same bytes or don't overlap.  No pointer needs
// more alignment than a float.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct SoftmaxF32 {
  const float* input;  // [rows][count]
  float* output;       // [rows][count]
  size_t rows, count;
  bool is_log = false;
  float scale = 1.0f;
  float* sums = nullptr;  // [rows]; not with is_log
};

// Elements of a row after which the lanes begin anew.
inline constexpr size_t kSoftmaxBlock = 1024;

using SoftmaxF32Kernel = void(const SoftmaxF32&) noexcept;

SoftmaxF32Kernel softmax_f32_scalar, softmax_f32_avx2_16, softmax_f32_avx512_16, softmax_f32_neon_16;

}  // namespace alcove::kernels
