// Elements that are neighbours on one side of a copy and lie apart on the other.  Internal linkage: only strided_copy includes it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/transpose_quad.h"

namespace alcove::kernels {

namespace {

// One dimension of the walk; strides in bytes.
struct Axis {
  size_t count;
  ptrdiff_t from;
  ptrdiff_t to;
};

// Elements of type T that lie apart on one side or on both.
template <typename T>
void line(const uint8_t* from, uint8_t* to, const Axis& axis) noexcept {
  if (axis.from == 0) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    for (size_t i = 0; i < axis.count; ++i) {
      std::memcpy(to, &value, sizeof(T));
      to += axis.to;
    }
    return;
  }
  for (size_t i = 0; i < axis.count; ++i) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    std::memcpy(to, &value, sizeof(T));
    from += axis.from;
    to += axis.to;
  }
}

// 3 planes of 4-byte elements become triples: `from` has `count` neighbours in each plane, planes `plane` bytes apart.
inline void interleave_3(const uint8_t* from, ptrdiff_t plane, uint8_t* to, size_t count) noexcept {
  size_t i = 0;
  for (; i + 4 < count; i += 4, from += 16, to += 48) {  // each triple is written as 4, so one must follow
    Quad a, b, c;
    std::memcpy(&a, from, 16);
    std::memcpy(&b, from + plane, 16);
    std::memcpy(&c, from + 2 * plane, 16);
    const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Quad triples[4] = {
        __builtin_shufflevector(ab, c, 0, 1, 4, 4), __builtin_shufflevector(ab, c, 2, 3, 5, 5),
        __builtin_shufflevector(cd, c, 0, 1, 6, 6), __builtin_shufflevector(cd, c, 2, 3, 7, 7)};
    for (int t = 0; t < 4; ++t) std::memcpy(to + 12 * t, &triples[t], 16);
  }
  for (; i < count; ++i, from += 4, to += 12) {
    for (int t = 0; t < 3; ++t) std::memcpy(to + 4 * t, from + t * plane, 4);
  }
}

// The way back.
inline void deinterleave_3(const uint8_t* from, uint8_t* to, ptrdiff_t plane, size_t count) noexcept {
  size_t i = 0;
  for (; i + 4 <= count; i += 4, from += 48, to += 16) {
    Quad x, y, z;  // a0 b0 c0 a1, b1 c1 a2 b2, c2 a3 b3 c3
    std::memcpy(&x, from, 16);
    std::memcpy(&y, from + 16, 16);
    std::memcpy(&z, from + 32, 16);
    const Quad a = __builtin_shufflevector(__builtin_shufflevector(x, y, 0, 3, 6, 6), z, 0, 1, 2, 5);
    const Quad b = __builtin_shufflevector(__builtin_shufflevector(x, y, 1, 4, 7, 7), z, 0, 1, 2, 6);
    const Quad c = __builtin_shufflevector(__builtin_shufflevector(x, y, 2, 5, 5, 5), z, 0, 1, 4, 7);
    std::memcpy(to, &a, 16);
    std::memcpy(to + plane, &b, 16);
    std::memcpy(to + 2 * plane, &c, 16);
  }
  for (; i < count; ++i, from += 12, to += 4) {
    for (int t = 0; t < 3; ++t) std::memcpy(to + t * plane, from + 4 * t, 4);
  }
}

// The same for planes of bytes.
inline void interleave_3_bytes(const uint8_t* from, ptrdiff_t plane, uint8_t* to, size_t count) noexcept {
  size_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; i + 4 <= count; i += 4, from += 4, to += 12) {
      uint32_t a, b, c;
      std::memcpy(&a, from, 4);
      std::memcpy(&b, from + plane, 4);
      std::memcpy(&c, from + 2 * plane, 4);
      const uint32_t x = (a & 0xFFu) | (b & 0xFFu) << 8 | (c & 0xFFu) << 16 | (a & 0xFF00u) << 16;
      const uint32_t y = (b >> 8 & 0xFFu) | (c & 0xFF00u) | (a & 0xFF0000u) | (b & 0xFF0000u) << 8;
      const uint32_t z = (c >> 16 & 0xFFu) | (a >> 16 & 0xFF00u) | (b >> 8 & 0xFF0000u) | (c & 0xFF000000u);
      std::memcpy(to, &x, 4);
      std::memcpy(to + 4, &y, 4);
      std::memcpy(to + 8, &z, 4);
    }
  }
  for (; i < count; ++i, ++from, to += 3) {
    for (int t = 0; t < 3; ++t) to[t] = from[t * plane];
  }
}

// `a` is contiguous in `from`, `b` in `to`: blocks keep both sides' cache lines until they are used up.
template <typename T>
void transpose(const uint8_t* from, uint8_t* to, const Axis& a, const Axis& b) noexcept {
  if constexpr (sizeof(T) == 4) {  // pictures, between planes and pixels
    if (b.count == 3 && a.to == 12) return interleave_3(from, b.from, to, a.count);
    if (a.count == 3 && b.from == 12) return deinterleave_3(from, to, a.to, b.count);
  }
  if constexpr (sizeof(T) == 1) {
    if (b.count == 3 && a.to == 3) return interleave_3_bytes(from, b.from, to, a.count);
  }
  constexpr size_t kBlock = 32;
  const auto at = [](size_t i, ptrdiff_t step) { return static_cast<ptrdiff_t>(i) * step; };
  for (size_t i0 = 0; i0 < a.count; i0 += kBlock) {
    const size_t i1 = a.count - i0 < kBlock ? a.count : i0 + kBlock;
    for (size_t j0 = 0; j0 < b.count; j0 += kBlock) {
      const size_t j1 = b.count - j0 < kBlock ? b.count : j0 + kBlock;
      size_t i = i0;
      if constexpr (sizeof(T) == 4) {
        for (; i + 4 <= i1; i += 4) {
          size_t j = j0;
          for (; j + 4 <= j1; j += 4) {
            transpose_quad(from + at(i, a.from) + at(j, b.from), b.from, to + at(i, a.to) + at(j, b.to), a.to);
          }
          for (size_t k = i; k < i + 4; ++k) {
            line<T>(from + at(k, a.from) + at(j, b.from), to + at(k, a.to) + at(j, b.to), {j1 - j, b.from, b.to});
          }
        }
      }
      for (; i < i1; ++i) {
        line<T>(from + at(i, a.from) + at(j0, b.from), to + at(i, a.to) + at(j0, b.to), {j1 - j0, b.from, b.to});
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
