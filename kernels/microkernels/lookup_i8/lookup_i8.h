// Any function of one int8: output = table[input + 128].  The output may be the input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct LookupI8 {
  const int8_t* input;
  const int8_t* table;  // [256]
  int8_t* output;
  size_t count;
};

using LookupI8Kernel = void(const LookupI8&) noexcept;

LookupI8Kernel lookup_i8_scalar, lookup_i8_avx2_32, lookup_i8_avx512_64, lookup_i8_avx512_vbmi_64, lookup_i8_neon_16;

}  // namespace alcove::kernels
