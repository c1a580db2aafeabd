// Mean over a run of neighbouring dimensions, input [outer][reduced][inner] -> output [outer][inner].
//   acc = sum over the reduced of input, in int32; output = requantize(float(acc - reduced * input_zero) * ratio)
// ratio = input scale / (reduced * output scale).  (kernels/requantize.h has the rule.)
// The caller has checked: sizes are at least 1, reduced <= 2^23, zero points in [-128, 127], -128 <= low <= high <= 127; the
// output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct MeanI8 {
  const int8_t* input;
  int8_t* output;
  size_t outer, reduced, inner;
  float ratio;
  int32_t input_zero, zero_point, low, high;
};

using MeanI8Kernel = void(const MeanI8&) noexcept;

MeanI8Kernel mean_i8_scalar, mean_i8_avx2, mean_i8_avx512, mean_i8_neon;

}  // namespace alcove::kernels
