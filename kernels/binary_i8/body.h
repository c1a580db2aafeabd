// The loops of add_i8 and mul_i8, compiled once for each instruction set.
#pragma once

#include "kernels/binary_i8/binary_i8.h"
#include "kernels/requantise.h"

namespace alcove::kernels {

namespace {

// What a byte that is written cannot change.
struct Terms {
  int32_t a_zero, b_zero;
  float a_ratio, b_ratio;
};

struct Add {
  static float of(const Terms& x, int32_t a, int32_t b) noexcept {
    return static_cast<float>(a - x.a_zero) * x.a_ratio + static_cast<float>(b - x.b_zero) * x.b_ratio;
  }
};

struct Mul {
  static float of(const Terms& x, int32_t a, int32_t b) noexcept {
    return static_cast<float>((a - x.a_zero) * (b - x.b_zero)) * x.a_ratio;
  }
};

// Strides that are known let the compiler use whole vectors.
template <class F, size_t kA, size_t kB>
void line(const Terms x, const int8_t* a, const int8_t* b, int8_t* output, size_t count, Int8Range range) noexcept {
  for (size_t i = 0; i < count; ++i) output[i] = requantise(F::of(x, a[i * kA], b[i * kB]), range);
}

template <class F>
void combine(const BinaryI8& x) noexcept {
  const Int8Range range = int8_range(x.low, x.high, x.zero_point);
  const Terms terms = {x.a_zero, x.b_zero, x.a_ratio, x.b_ratio};
  const size_t last = x.rank == 0 ? 0 : x.rank - 1;
  const size_t count = x.rank == 0 ? 1 : x.dims[last];
  const bool a_moves = x.rank != 0 && x.a_strides[last] != 0, b_moves = x.rank != 0 && x.b_strides[last] != 0;
  size_t lines = 1;
  for (size_t d = 0; d < last; ++d) lines *= x.dims[d];
  size_t index[8] = {};
  int8_t* output = x.output;
  for (size_t i = 0; i < lines; ++i, output += count) {
    const int8_t* a = x.a;
    const int8_t* b = x.b;
    for (size_t d = 0; d < last; ++d) {
      a += index[d] * x.a_strides[d];
      b += index[d] * x.b_strides[d];
    }
    if (a_moves && b_moves) {
      line<F, 1, 1>(terms, a, b, output, count, range);
    } else if (a_moves) {
      line<F, 1, 0>(terms, a, b, output, count, range);
    } else if (b_moves) {
      line<F, 0, 1>(terms, a, b, output, count, range);
    } else {
      line<F, 0, 0>(terms, a, b, output, count, range);
    }
    for (size_t d = last; d-- > 0;) {
      if (++index[d] < x.dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
