// The k greatest of n values, descending, with their indices; equal values by lower index; NaN (as 0x7FC00000) last.
//
// The caller has checked: 1 <= k <= n < 2^31 and the outputs overlap nothing.  Takes at most n * k steps; values that
// don't reach the k best so far, which are most, take one.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct TopkF32 {
  const float* input;  // [n]
  size_t n, k;
  float* values;     // [k]
  int32_t* indices;  // [k]
};

using TopkF32Kernel = void(const TopkF32&) noexcept;

TopkF32Kernel topk_f32_reference;

}  // namespace alcove::kernels
