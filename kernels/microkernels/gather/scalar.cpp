// All indices are checked first, then elements are fetched one by one.
#include "kernels/microkernels/gather/gather.h"

#include <cstring>

#include "kernels/microkernels/gather/places.h"

namespace alcove::kernels {

namespace {

template <typename T>
void fetch(const Gather& a) noexcept {
  for_each_place(a.indices, a.rank, a.axis, a.dims, a.input_dims, [&a](size_t i, size_t place) noexcept {
    std::memcpy(a.output + i * sizeof(T), a.input + place * sizeof(T), sizeof(T));
  });
}

}  // namespace

size_t gather_scalar(const Gather& a) noexcept {
  const size_t bad = first_bad_index(a.indices, a.input_dims[a.axis], false);
  if (bad < a.indices.count) return bad;
  switch (a.element_bytes) {
    case 1: fetch<uint8_t>(a); break;
    case 2: fetch<uint16_t>(a); break;
    case 4: fetch<uint32_t>(a); break;
    default: fetch<uint64_t>(a); break;
  }
  return a.indices.count;
}

}  // namespace alcove::kernels
