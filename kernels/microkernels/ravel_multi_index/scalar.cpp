// Linear indices from one index for each dimension.
#include "kernels/microkernels/ravel_multi_index/ravel_multi_index.h"

namespace alcove::kernels {

RavelMultiIndexResult ravel_multi_index_scalar(const RavelMultiIndex& a) noexcept {
  const size_t positions = a.indices[0].count;
  for (size_t k = 0; k < a.count; ++k) {
    const Indices& indices = a.indices[k];
    const size_t bad = first_bad_index(indices, a.bounds[k], true);
    if (bad < positions) return {k, bad};
    for (size_t i = 0; i < positions; ++i) {
      const auto place = static_cast<int64_t>(index_place(index_at(indices, i), a.bounds[k]));
      a.output[i] = k == 0 ? place : a.output[i] * static_cast<int64_t>(a.bounds[k]) + place;
    }
  }
  return {a.count, 0};
}

}  // namespace alcove::kernels
