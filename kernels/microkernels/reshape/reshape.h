// The same elements under another shape: a copy, or nothing where output and input are the same bytes.
//
// The caller has checked: input and output are the same bytes or don't overlap.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct Reshape {
  const uint8_t* input;
  uint8_t* output;
  size_t size_bytes;
};

using ReshapeKernel = void(const Reshape&) noexcept;

ReshapeKernel reshape_scalar;

}  // namespace alcove::kernels
