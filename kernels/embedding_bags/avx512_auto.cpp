// The body compiled for AVX-512.
#include "kernels/embedding_bags/body.h"

namespace alcove::kernels {

EmbeddingBagsResult embedding_bags_f32_avx512(const EmbeddingBagsF32& a) noexcept { return embedding_bags(a); }

}  // namespace alcove::kernels
