// The loops, as the compiler's vectors with AVX-512.
#include "kernels/embedding_i8/body.h"

namespace alcove::kernels {

size_t embedding_i8_avx512_auto(const EmbeddingI8& a) noexcept { return embed(a); }

}  // namespace alcove::kernels
