// The body compiled for NEON.
#include "kernels/embedding_bags/body.h"

namespace alcove::kernels {

EmbeddingBagsResult embedding_bags_f32_neon(const EmbeddingBagsF32& a) noexcept { return embedding_bags(a); }

}  // namespace alcove::kernels
