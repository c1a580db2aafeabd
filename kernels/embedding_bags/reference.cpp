// The truth about embedding bags: bag by bag, row by row.
#include "kernels/embedding_bags/body.h"

namespace alcove::kernels {

EmbeddingBagsResult embedding_bags_f32_reference(const EmbeddingBagsF32& a) noexcept { return embedding_bags(a); }

}  // namespace alcove::kernels
