// 4 x 4 elements of 4 bytes change places, without instructions of any set.  Internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace alcove::kernels {

namespace {

typedef uint32_t Quad __attribute__((vector_size(16)));

// 4 x 4 elements of 4 bytes: contiguous along `a` in `from`, along `b` in `to`.
[[maybe_unused]] inline void transpose_quad(const uint8_t* from, ptrdiff_t from_step, uint8_t* to,
                                            ptrdiff_t to_step) noexcept {
  Quad r0, r1, r2, r3;
  std::memcpy(&r0, from, 16);
  std::memcpy(&r1, from + from_step, 16);
  std::memcpy(&r2, from + 2 * from_step, 16);
  std::memcpy(&r3, from + 3 * from_step, 16);
  const Quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const Quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  const Quad c0 = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  const Quad c1 = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  const Quad c2 = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  const Quad c3 = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
  std::memcpy(to, &c0, 16);
  std::memcpy(to + to_step, &c1, 16);
  std::memcpy(to + 2 * to_step, &c2, 16);
  std::memcpy(to + 3 * to_step, &c3, 16);
}

}  // namespace

}  // namespace alcove::kernels
