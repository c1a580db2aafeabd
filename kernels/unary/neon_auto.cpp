// The loops of body.h as the compiler vectorises them for NEON.
#include "kernels/unary/body.h"

namespace alcove::kernels {

void unary_f32_neon_auto(const UnaryF32& p) noexcept { unary_f32(p); }

}  // namespace alcove::kernels
