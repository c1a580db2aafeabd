// All indices are checked first; then rows are copied, short ones as one element.
#include "kernels/microkernels/index_select/index_select.h"

#include <cstring>

namespace alcove::kernels {

namespace {

template <typename Copy>
void rows(const IndexSelect& a, const Copy& copy) noexcept {
  uint8_t* to = a.output;
  for (size_t o = 0; o < a.outer; ++o) {
    const uint8_t* from = a.input + o * a.bound * a.row_bytes;
    for (size_t i = 0; i < a.indices.count; ++i) {
      copy(to, from + index_place(index_at(a.indices, i), a.bound) * a.row_bytes);
      to += a.row_bytes;
    }
  }
}

}  // namespace

size_t index_select_scalar(const IndexSelect& a) noexcept {
  const size_t bad = first_bad_index(a.indices, a.bound, a.wraps);
  if (bad < a.indices.count) return bad;
  switch (a.row_bytes) {
    case 1: rows(a, [](uint8_t* to, const uint8_t* from) noexcept { *to = *from; }); break;
    case 4: rows(a, [](uint8_t* to, const uint8_t* from) noexcept { std::memcpy(to, from, 4); }); break;
    case 8: rows(a, [](uint8_t* to, const uint8_t* from) noexcept { std::memcpy(to, from, 8); }); break;
    default: {
      const size_t bytes = a.row_bytes;
      rows(a, [bytes](uint8_t* to, const uint8_t* from) noexcept { std::memcpy(to, from, bytes); });
    }
  }
  return a.indices.count;
}

}  // namespace alcove::kernels
