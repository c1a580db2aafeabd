// output[o][i][c] = f(input[o][0][c], ..., input[o][i][c]): running sum, product, greatest or least over the middle axis.
//
// f32 sums and products are accumulated in order in float64, and each is rounded once on its way out; int64 wraps around.
// max and min: a later element that is equal takes over, a NaN too, and after a NaN only another NaN does; `indices`, if
// not null, gets the place of the element in force.  NaN leaves as 0x7FC00000.
//
// The caller has checked: sizes are at least 1; the outputs overlap nothing.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class Running : int64_t { sum = 0, prod = 1, max = 2, min = 3 };

struct Scan {
  const void* input;  // [outer][n][inner]
  void* output;       // the same
  int64_t* indices;   // the same, or null; for max and min only
  size_t outer, n, inner;
  Running function;
};

using ScanKernel = void(const Scan&) noexcept;

ScanKernel scan_f32_reference, scan_i64_reference;

}  // namespace alcove::kernels
