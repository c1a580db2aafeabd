// A memset where all bytes of the element are equal, which zero is.
#include "kernels/microkernels/fill/fill.h"

#include <cstring>

namespace alcove::kernels {

namespace {

template <typename T>
void fill(const Fill& a) noexcept {
  const T value = static_cast<T>(a.bits);
  uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  bool is_uniform = true;
  for (size_t i = 1; i < sizeof(T); ++i) is_uniform = is_uniform && bytes[i] == bytes[0];
  if (is_uniform) {
    if (a.count > 0) std::memset(a.output, bytes[0], a.count * sizeof(T));
    return;
  }
  for (size_t i = 0; i < a.count; ++i) std::memcpy(a.output + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

void fill_scalar(const Fill& a) noexcept {
  switch (a.element_bytes) {
    case 1: return fill<uint8_t>(a);
    case 2: return fill<uint16_t>(a);
    case 4: return fill<uint32_t>(a);
    default: return fill<uint64_t>(a);
  }
}

}  // namespace alcove::kernels
