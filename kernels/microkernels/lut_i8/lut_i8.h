// Any function of one int8: output = table[input + 128].  The output may be the input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct LutI8 {
  const int8_t* input;
  const int8_t* table;  // [256]
  int8_t* output;
  size_t count;
};

using LutI8Kernel = void(const LutI8&) noexcept;

LutI8Kernel lut_i8_scalar, lut_i8_avx2_32, lut_i8_avx512_64, lut_i8_avx512_vbmi_64, lut_i8_neon_16;

}  // namespace alcove::kernels
