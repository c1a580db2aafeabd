// output[o][i][c] = f(input[o][0][c], ..., input[o][i][c]): running sum, product, greatest or least over the middle axis.
//
// f32 sums and products are accumulated in order in float64, and each is rounded once on its way out; int64 wraps around.
// log_sum_exp, of f32 alone: m = -inf, s = 0; for each v but -inf: if v > m, s = s * exp(m - v) + 1 and m = v, else
// s = s + exp(v - m) (1 if they are equal); y = m + log(s); with exp_f64 and log_f64 of kernels/math, one rounding at the end.
// max and min: a later element that is equal takes over, a NaN too, and after a NaN only another NaN does; `indices`, if
// not null, gets the place of the element in force.  NaN leaves as 0x7FC00000.
//
// The caller has checked: sizes are at least 1; the outputs overlap nothing.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class Running : int64_t { sum = 0, prod = 1, log_sum_exp = 2, max, min };

struct Scan {
  const void* input;  // [outer][n][inner]
  void* output;       // the same
  int64_t* indices;   // the same, or null; for max and min only
  size_t outer, n, inner;
  Running function;
};

using ScanKernel = void(const Scan&) noexcept;

ScanKernel scan_f32_scalar, scan_i64_scalar;

}  // namespace alcove::kernels
