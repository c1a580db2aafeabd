// The loops of body.h as the compiler vectorises them for NEON.
#include "kernels/binary/body.h"

namespace alcove::kernels {

bool binary_f32_neon_auto(const Binary<float>& p) noexcept { return binary_f32(p); }

}  // namespace alcove::kernels
