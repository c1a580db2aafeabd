// Every element becomes `bits`.
//
// The caller has checked: element_bytes is 1, 2, 4 or 8.  No pointer needs alignment.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct Fill {
  uint8_t* output;
  size_t count;
  size_t element_bytes;
  uint64_t bits;  // of one element, in the low bytes
};

using FillKernel = void(const Fill&) noexcept;

FillKernel fill_scalar;

}  // namespace alcove::kernels
