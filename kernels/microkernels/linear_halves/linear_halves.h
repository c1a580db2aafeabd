// linear (kernels/microkernels/linear) with weights and biases of 16 bits that are widened as they are read: the bits of the same
// product with float32 panels.  Few rows wait for the weights, which are half as many bytes.
//
// Panels are those of linear with uint16 for each float.  Of LinearF32 `panels` is not read and `runs` is 1.  The caller has checked
// the same.  No pointer needs more alignment than its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/linear/linear.h"

namespace alcove::kernels {

struct LinearHalves : LinearF32 {
  const uint8_t* halves;  // [ceil(n/16)][k + 1][16]
  bool is_f16;            // else bfloat16
};

using LinearHalvesKernel = void(const LinearHalves&) noexcept;

LinearHalvesKernel linear_halves_scalar, linear_halves_avx2, linear_halves_avx512, linear_halves_neon;

}  // namespace alcove::kernels
