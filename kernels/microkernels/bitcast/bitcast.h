// The same bits as another type; a NaN among floats that come out becomes 0x7FC00000.
//
// The caller has checked: elements of both types have the same size; input and output are the same bytes or don't overlap.
// No pointer needs more alignment than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct Bitcast {
  const uint8_t* input;
  uint8_t* output;
  size_t size_bytes;
  bool gives_floats;  // float32; then size_bytes is a multiple of 4
};

using BitcastKernel = void(const Bitcast&) noexcept;

BitcastKernel bitcast_scalar;

}  // namespace alcove::kernels
