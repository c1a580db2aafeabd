// Elements that are neighbours on one side of a copy and lie apart on the other.  Internal linkage: only as_strided_copy includes
// it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"
#include "kernels/transpose_quad.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

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
#if defined(__aarch64__)  // has instructions for triples
  for (; i + 4 <= count; i += 4, from += 16, to += 48) {
    uint32x4x3_t planes;
    planes.val[0] = vreinterpretq_u32_u8(vld1q_u8(from));
    planes.val[1] = vreinterpretq_u32_u8(vld1q_u8(from + plane));
    planes.val[2] = vreinterpretq_u32_u8(vld1q_u8(from + 2 * plane));
    vst3q_u32(reinterpret_cast<uint32_t*>(to), planes);
  }
#else
  for (; i + 4 < count; i += 4, from += 16, to += 48) {  // each triple is written as 4, so one must follow
    Quad a, b, c;
    std::memcpy(&a, from, 16);
    std::memcpy(&b, from + plane, 16);
    std::memcpy(&c, from + 2 * plane, 16);
    const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Quad triples[4] = {__builtin_shufflevector(ab, c, 0, 1, 4, 4), __builtin_shufflevector(ab, c, 2, 3, 5, 5),
                             __builtin_shufflevector(cd, c, 0, 1, 6, 6), __builtin_shufflevector(cd, c, 2, 3, 7, 7)};
    for (int t = 0; t < 4; ++t) std::memcpy(to + 12 * t, &triples[t], 16);
  }
#endif
  for (; i < count; ++i, from += 4, to += 12) {
    for (int t = 0; t < 3; ++t) std::memcpy(to + 4 * t, from + t * plane, 4);
  }
}

// The way back.
inline void deinterleave_3(const uint8_t* from, uint8_t* to, ptrdiff_t plane, size_t count) noexcept {
  size_t i = 0;
#if defined(__aarch64__)
  for (; i + 4 <= count; i += 4, from += 48, to += 16) {
    const uint32x4x3_t planes = vld3q_u32(reinterpret_cast<const uint32_t*>(from));
    for (int t = 0; t < 3; ++t) vst1q_u8(to + t * plane, vreinterpretq_u8_u32(planes.val[t]));
  }
#else
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
#endif
  for (; i < count; ++i, from += 12, to += 4) {
    for (int t = 0; t < 3; ++t) std::memcpy(to + t * plane, from + 4 * t, 4);
  }
}

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef uint64_t Words64 __attribute__((vector_size(16)));

// The same for planes of bytes.
inline void interleave_3_bytes(const uint8_t* from, ptrdiff_t plane, uint8_t* to, size_t count) noexcept {
  size_t i = 0;
#if defined(__aarch64__)
  for (; i + 16 <= count; i += 16, from += 16, to += 48) {
    uint8x16x3_t planes;
    planes.val[0] = vld1q_u8(from);
    planes.val[1] = vld1q_u8(from + plane);
    planes.val[2] = vld1q_u8(from + 2 * plane);
    vst3q_u8(to, planes);
  }
#else
  if constexpr (std::endian::native == std::endian::little) {
    // Triples with a byte of nothing behind each, then two of them moved together; what is written beyond them, the next
    // triple overwrites.
    for (; i + 17 <= count; i += 16, from += 16) {
      Bytes16 a, b, c;
      const Bytes16 none = {};
      std::memcpy(&a, from, 16);
      std::memcpy(&b, from + plane, 16);
      std::memcpy(&c, from + 2 * plane, 16);
      const Bytes16 pairs[2][2] = {
          {__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
           __builtin_shufflevector(c, none, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)},
          {__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
           __builtin_shufflevector(c, none, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)}};
      for (const auto& [ab, c0] : pairs) {
        const Bytes16 fours[2] = {
            __builtin_shufflevector(ab, c0, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23),
            __builtin_shufflevector(ab, c0, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)};
        for (const Bytes16& four : fours) {
          Words64 two;
          std::memcpy(&two, &four, 16);
          two = (two & 0xFFFFFFu) | (two >> 8 & 0xFFFFFF000000u);
          std::memcpy(to, &two, 8);
          const uint64_t upper = two[1];
          std::memcpy(to + 6, &upper, 8);
          to += 12;
        }
      }
    }
  }
#endif
  for (; i < count; ++i, ++from, to += 3) {
    for (int t = 0; t < 3; ++t) to[t] = from[t * plane];
  }
}

// `a` is contiguous in `from`, `b` in `to`: blocks keep both sides' cache lines until they are used up.
template <typename T>
void transpose(const uint8_t* from, uint8_t* to, const Axis& a, const Axis& b,
               TransposeBlockFunction* transpose_words) noexcept {
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
    const size_t columns = a.count - i0 < kBlock ? a.count - i0 : kBlock;
    for (size_t j0 = 0; j0 < b.count; j0 += kBlock) {
      const size_t rows = b.count - j0 < kBlock ? b.count - j0 : kBlock;
      const uint8_t* source = from + at(i0, a.from) + at(j0, b.from);
      uint8_t* target = to + at(i0, a.to) + at(j0, b.to);
      if constexpr (sizeof(T) == 4) {
        transpose_words({source, b.from, target, a.to, rows, columns});
      } else {
        for (size_t i = 0; i < columns; ++i)
          line<T>(source + at(i, a.from), target + at(i, a.to), {rows, b.from, b.to});
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
