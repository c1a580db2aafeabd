// Applies a loop over two plain rows to operands of any shape.  Rows that are walked with another stride than 1 are
// copied in blocks, so that each function needs one loop, and that one becomes vector code.
//
// Internal linkage: compiled once for each instruction set.
#pragma once

#include "kernels/microkernels/binary/binary.h"

namespace alcove::kernels {
namespace {

template <typename T, typename Result>
using RowLoop = void(const T* a, const T* b, Result* output, size_t count) noexcept;

constexpr size_t kRowBlock = 256;

template <typename T>
void copy_row(const T* from, size_t stride, T* block, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) block[i] = from[i * stride];
}

template <typename T, typename Result>
void apply_row(const T* a, size_t a_stride, const T* b, size_t b_stride, Result* output, size_t count,
               RowLoop<T, Result>* loop) noexcept {
  if (a_stride == 1 && b_stride == 1) return loop(a, b, output, count);
  T a_block[kRowBlock];
  T b_block[kRowBlock];
  for (size_t start = 0; start < count; start += kRowBlock) {
    const size_t size = count - start < kRowBlock ? count - start : kRowBlock;
    // What is repeated is copied once.
    if (a_stride != 1 && (a_stride != 0 || start == 0)) copy_row(a + start * a_stride, a_stride, a_block, size);
    if (b_stride != 1 && (b_stride != 0 || start == 0)) copy_row(b + start * b_stride, b_stride, b_block, size);
    loop(a_stride == 1 ? a + start : a_block, b_stride == 1 ? b + start : b_block, output + start, size);
  }
}

template <typename T, typename Result>
bool apply(const Binary<T>& p, RowLoop<T, Result>* loop) noexcept {
  const Walk<2> walk = joined<2>(p.shape, {&p.a_strides, &p.b_strides});
  const size_t last = walk.rank - 1;
  for_runs(walk, [&](const size_t (&offsets)[2], size_t at) {
    apply_row(p.a + offsets[0], walk.strides[0][last], p.b + offsets[1], walk.strides[1][last],
              static_cast<Result*>(p.output) + at, walk.dims[last], loop);
  });
  return true;
}

}  // namespace
}  // namespace alcove::kernels
