// Embedding bags without an instruction set: one column after the other, in the order of the ids.
#include "kernels/canonical.h"
#include "kernels/microkernels/text_embedding_bag/text_embedding_bag.h"
#include "kernels/microkernels/text_embedding_bag/column.h"

namespace alcove::kernels {

void text_embedding_bag_f32_scalar(const TextEmbeddingBagF32& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  for (size_t d = 0; d < a.dim; ++d) {
    float sum = column_sum(a, d);
    if (a.is_mean && a.count > 0) sum *= factor;
    a.output[d] = canonical(sum);
  }
}

void text_embedding_bag_i8_scalar(const TextEmbeddingBagI8& a) noexcept {
  const float factor = 1.0f / static_cast<float>(a.count);
  for (size_t d = 0; d < a.dim; ++d) {
    int32_t sum = 0;
    for (size_t i = 0; i < a.count; ++i) sum += a.table[static_cast<size_t>(a.ids[i]) * a.dim + d];
    float value = 0.0f;
    if (a.count > 0) {
      value = static_cast<float>(sum) * a.scale[d];
      if (a.is_mean) value *= factor;
    }
    a.output[d] = canonical(value);
  }
}

}  // namespace alcove::kernels
