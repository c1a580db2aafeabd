// The truth about reshape.
#include "kernels/reshape/reshape.h"

#include <cstring>

namespace alcove::kernels {

void reshape_reference(const Reshape& a) noexcept {
  if (a.output != a.input) std::memcpy(a.output, a.input, a.size_bytes);
}

}  // namespace alcove::kernels
