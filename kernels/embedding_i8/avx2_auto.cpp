// The loops, as the compiler's vectors of 256 bits.
#include "kernels/embedding_i8/body.h"

namespace alcove::kernels {

size_t embedding_i8_avx2_auto(const EmbeddingI8& a) noexcept { return embed(a); }

}  // namespace alcove::kernels
