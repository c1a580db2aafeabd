// All indices are checked first.  Where the input takes no part, a first pass puts the neutral value in its place.
#include "kernels/microkernels/scatter/scatter.h"

#include <cstring>

#include "kernels/microkernels/gather/places.h"
#include "kernels/microkernels/scatter/combine.h"

namespace alcove::kernels {

namespace {

// visit(element of source, element of output) in row-major order of the indices.
template <typename Visit>
void for_each_pair(const Scatter& a, const Visit& visit) noexcept {
  size_t strides[kMaxMovementRank];
  size_t stride = 1;
  for (size_t d = a.rank; d-- > 0;) {
    strides[d] = stride;
    stride *= a.source_dims[d];
  }
  size_t position[kMaxMovementRank] = {};
  size_t source = 0;
  for_each_place(a.indices, a.rank, a.axis, a.dims, a.output_dims, [&](size_t, size_t place) noexcept {
    visit(source, place);
    for (size_t d = a.rank; d-- > 0;) {
      source += strides[d];
      if (++position[d] < a.dims[d]) break;
      source -= strides[d] * a.dims[d];
      position[d] = 0;
    }
  });
}

void copy_input(const Scatter& a, size_t element_bytes) noexcept {
  if (a.output == a.input) return;
  size_t bytes = element_bytes;
  for (size_t d = 0; d < a.rank; ++d) bytes *= a.output_dims[d];
  std::memcpy(a.output, a.input, bytes);
}

template <typename T>
size_t scatter(const Scatter& a) noexcept {
  const size_t bad = first_bad_index(a.indices, a.output_dims[a.axis], false);
  if (bad < a.indices.count) return bad;
  copy_input(a, sizeof(T));
  const T* from = static_cast<const T*>(a.source);
  T* to = static_cast<T*>(a.output);
  if (!a.includes_self) {
    const T value = neutral<T>(a.mode);
    for_each_pair(a, [&](size_t, size_t place) noexcept { to[place] = value; });
  }
  for_each_pair(a, [&](size_t source, size_t place) noexcept { to[place] = combine(a.mode, to[place], from[source]); });
  return a.indices.count;
}

template <typename T>
void set(const Scatter& a) noexcept {
  const T* from = static_cast<const T*>(a.source);
  T* to = static_cast<T*>(a.output);
  for_each_pair(a, [&](size_t source, size_t place) noexcept { to[place] = from[source]; });
}

}  // namespace

size_t scatter_any_scalar(const Scatter& a) noexcept {
  const size_t bad = first_bad_index(a.indices, a.output_dims[a.axis], false);
  if (bad < a.indices.count) return bad;
  copy_input(a, a.element_bytes);
  switch (a.element_bytes) {
    case 1: set<uint8_t>(a); break;
    case 2: set<uint16_t>(a); break;
    case 4: set<uint32_t>(a); break;
    default: set<uint64_t>(a); break;
  }
  return a.indices.count;
}

size_t scatter_f32_scalar(const Scatter& a) noexcept { return scatter<float>(a); }
size_t scatter_i32_scalar(const Scatter& a) noexcept { return scatter<int32_t>(a); }
size_t scatter_i64_scalar(const Scatter& a) noexcept { return scatter<int64_t>(a); }

}  // namespace alcove::kernels
