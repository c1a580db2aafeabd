#include "kernels/microkernels/bitcast/bitcast.h"

#include <cstring>

#include "kernels/canonical.h"

namespace alcove::kernels {

void bitcast_scalar(const Bitcast& a) noexcept {
  if (!a.gives_floats) {
    if (a.input != a.output) std::memcpy(a.output, a.input, a.size_bytes);
    return;
  }
  for (size_t i = 0; i < a.size_bytes; i += sizeof(float)) {
    float value;
    std::memcpy(&value, a.input + i, sizeof value);
    value = canonical(value);
    std::memcpy(a.output + i, &value, sizeof value);
  }
}

}  // namespace alcove::kernels
