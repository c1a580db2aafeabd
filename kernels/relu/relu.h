// output[i] = input[i] if it is greater than 0; 0x7FC00000 if it is a NaN; +0 otherwise.
//
// The caller has checked: input and output are the same bytes or don't overlap.  No pointer needs more alignment than a
// float.  Any number of threads.
#pragma once

#include <cstddef>

namespace alcove::kernels {

struct ReluF32 {
  const float* input;
  float* output;
  size_t count;
};

using ReluF32Kernel = void(const ReluF32&) noexcept;

ReluF32Kernel relu_f32_reference, relu_f32_avx2_8, relu_f32_avx512_16;

}  // namespace alcove::kernels
