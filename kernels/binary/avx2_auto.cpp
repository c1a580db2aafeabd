// The loops of body.h as the compiler vectorises them for AVX2.
#include "kernels/binary/body.h"

namespace alcove::kernels {

bool binary_f32_avx2_auto(const Binary<float>& p) noexcept { return binary_f32(p); }

}  // namespace alcove::kernels
