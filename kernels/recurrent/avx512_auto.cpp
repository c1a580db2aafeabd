// Recurrent layers for AVX-512: the same body, vectorised by the compiler.
#include "kernels/recurrent/body.h"

namespace alcove::kernels {

void recurrent_f32_avx512(const RecurrentF32& a) noexcept { recurrent_f32_body(a); }

}  // namespace alcove::kernels
