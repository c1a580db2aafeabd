// A copy where the bytes differ, then one strided move.
#include "kernels/microkernels/as_strided_scatter/as_strided_scatter.h"

#include <cstring>

namespace alcove::kernels {

void as_strided_scatter_scalar(const AsStridedScatter& a) noexcept {
  if (a.output != a.input) std::memcpy(a.output, a.input, a.size_bytes);
  StridedMove move{};
  move.from = a.source;
  move.to = a.output + a.offset * static_cast<int64_t>(a.element_bytes);
  move.element_bytes = a.element_bytes;
  move.rank = a.rank;
  int64_t stride = 1;
  for (size_t d = a.rank; d-- > 0;) {
    move.dims[d] = a.dims[d];
    move.from_strides[d] = stride;
    move.to_strides[d] = a.strides[d];
    stride *= static_cast<int64_t>(a.dims[d]);
  }
  move_strided(move);
}

}  // namespace alcove::kernels
