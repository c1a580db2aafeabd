// Look-ups without an instruction set: a load for each element.
#include "kernels/microkernels/lut_i8/lut_i8.h"

namespace alcove::kernels {

void lut_i8_scalar(const LutI8& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) a.output[i] = a.table[a.input[i] + 128];
}

}  // namespace alcove::kernels
