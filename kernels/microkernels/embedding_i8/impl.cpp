// The loop of embedding_i8, compiled once for each instruction set.
#include "kernels/canonical.h"
#include "kernels/microkernels/embedding_i8/embedding_i8.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

size_t embed(const EmbeddingI8& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) {
    const int64_t id = a.are_wide ? static_cast<const int64_t*>(a.ids)[i] : static_cast<const int32_t*>(a.ids)[i];
    if (id < 0 || static_cast<uint64_t>(id) >= a.rows) return i;
    const int8_t* row = a.table + static_cast<size_t>(id) * a.dim;
    float* output = a.output + i * a.dim;
    for (size_t d = 0; d < a.dim; ++d) output[d] = canonical(static_cast<float>(row[d]) * a.scale[d]);
  }
  return a.count;
}

}  // namespace

size_t ALCOVE_PER_ISA(embedding_i8)(const EmbeddingI8& a) noexcept { return embed(a); }

}  // namespace alcove::kernels
