// output[i] = start + step * i, computed in f64 and converted once, as torch.arange computes it.
//
// i32, i64: the caller has checked that start and step are whole and that every value fits both the type and the 53 bits
// that f64 holds exactly.  f32: rounded to nearest even; a NaN comes out as 0x7FC00000.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

template <typename T>
struct Arange {
  T* output;
  size_t count;
  double start;
  double step;
};

using ArangeF32Kernel = void(const Arange<float>&) noexcept;
using ArangeI32Kernel = void(const Arange<int32_t>&) noexcept;
using ArangeI64Kernel = void(const Arange<int64_t>&) noexcept;

ArangeF32Kernel arange_f32_scalar;
ArangeI32Kernel arange_i32_scalar;
ArangeI64Kernel arange_i64_scalar;

}  // namespace alcove::kernels
