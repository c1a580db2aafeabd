// Up to 16 inputs side by side: seen as [outer][run_bytes[i]], output is [outer][sum of run_bytes].  Bits are kept.
//
// The caller has checked: 1 <= count <= 16, outer >= 1, each run_bytes >= 1, output overlaps no input.  No pointer needs
// alignment.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

inline constexpr size_t kMaxConcatInputs = 16;

struct Concat {
  const uint8_t* inputs[kMaxConcatInputs];
  size_t run_bytes[kMaxConcatInputs];  // bytes of an input for one position of the dimensions before the axis
  size_t count;
  size_t outer;
  uint8_t* output;
};

using ConcatKernel = void(const Concat&) noexcept;

ConcatKernel concat_scalar;

}  // namespace alcove::kernels
