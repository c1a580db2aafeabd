// output[o][c] = fold of input[o][0..n)[c]; the axes that are folded lie between `outer` and `inner` ones.
//
// sum, mean, prod, max, min: element i goes to lane i mod 16, the lanes start at the function's neutral element (+0, 1,
// the least, the greatest; sums of float32 begin anew with each 1,024 elements, and lanes of those go to the levels of
// kernels/long_sum.h), then lane l takes lane l + 8, + 4, + 2, + 1; mean divides lane 0 by n.  One order for rows and
// columns.  Integers wrap around.  A NaN anywhere gives 0x7FC00000.
//   max  a, b -> b if b > a or b is NaN, else a           min likewise with <
// argmax, argmin: the lowest index of the greatest (least) element, as int64; the first NaN is both.
//
// The caller has checked: sizes are at least 1, n < 2^32, sum, mean and prod are of f32 or i64 only, and mean of f32 only.
// The output overlaps no input.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class Fold : int64_t { sum = 0, mean = 1, prod = 2, max = 3, min = 4, argmax = 5, argmin = 6 };
inline constexpr int64_t kFolds = 7;

struct Reduce {
  const void* input;  // [outer][n][inner]
  void* output;       // [outer][inner] of the input's type; int64 for argmax and argmin
  size_t outer, n, inner;
  Fold fold;
};

using ReduceKernel = void(const Reduce&) noexcept;

ReduceKernel reduce_f32_scalar, reduce_f32_avx2, reduce_f32_avx512, reduce_f32_neon;
ReduceKernel reduce_i32_scalar, reduce_i64_scalar, reduce_i8_scalar;
ReduceKernel reduce_u8_scalar;  // bool too: max is any, min is all

}  // namespace alcove::kernels
