// Look-ups without an instruction set: a load for each element.
#include "kernels/microkernels/lookup_i8/lookup_i8.h"

namespace alcove::kernels {

void lookup_i8_scalar(const LookupI8& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) a.output[i] = a.table[a.input[i] + 128];
}

}  // namespace alcove::kernels
