// All indices are checked first.  Where the input takes no part, a first pass puts the neutral value in its place.
#include "kernels/microkernels/index_put/index_put.h"

#include <cstring>

#include "kernels/microkernels/scatter/combine.h"

namespace alcove::kernels {

namespace {

// visit(row of source, row of output)
template <typename Visit>
void for_each_row(const IndexPut& a, const Visit& visit) noexcept {
  for (size_t o = 0; o < a.outer; ++o) {
    for (size_t i = 0; i < a.indices.count; ++i) {
      visit(o * a.indices.count + i, o * a.bound + index_place(index_at(a.indices, i), a.bound));
    }
  }
}

void copy_input(const IndexPut& a, size_t element_bytes) noexcept {
  if (a.output != a.input) std::memcpy(a.output, a.input, a.outer * a.bound * a.row * element_bytes);
}

template <typename T>
size_t index_put(const IndexPut& a) noexcept {
  const size_t bad = first_bad_index(a.indices, a.bound, a.wraps);
  if (bad < a.indices.count) return bad;
  copy_input(a, sizeof(T));
  const T* from = static_cast<const T*>(a.source);
  T* to = static_cast<T*>(a.output);
  if (!a.includes_self) {
    const T value = neutral<T>(a.mode);
    for_each_row(a, [&](size_t, size_t place) noexcept {
      for (size_t j = 0; j < a.row; ++j) to[place * a.row + j] = value;
    });
  }
  for_each_row(a, [&](size_t source, size_t place) noexcept {
    for (size_t j = 0; j < a.row; ++j) {
      T& there = to[place * a.row + j];
      there = combine(a.mode, there, from[source * a.row + j]);
    }
  });
  return a.indices.count;
}

}  // namespace

size_t index_put_any_scalar(const IndexPut& a) noexcept {
  const size_t bad = first_bad_index(a.indices, a.bound, a.wraps);
  if (bad < a.indices.count) return bad;
  copy_input(a, a.element_bytes);
  const size_t bytes = a.row * a.element_bytes;
  const auto* from = static_cast<const uint8_t*>(a.source);
  auto* to = static_cast<uint8_t*>(a.output);
  for_each_row(
      a, [&](size_t source, size_t place) noexcept { std::memcpy(to + place * bytes, from + source * bytes, bytes); });
  return a.indices.count;
}

size_t index_put_f32_scalar(const IndexPut& a) noexcept { return index_put<float>(a); }
size_t index_put_i32_scalar(const IndexPut& a) noexcept { return index_put<int32_t>(a); }
size_t index_put_i64_scalar(const IndexPut& a) noexcept { return index_put<int64_t>(a); }

}  // namespace alcove::kernels
