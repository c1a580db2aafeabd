// Vector, the floats of one register of the instruction set that an `impl.cpp` is compiled for.
#pragma once

#if defined(ALCOVE_ISA_avx512)
#include "kernels/simd/vector_avx512.h"
#elif defined(ALCOVE_ISA_avx2)
#include "kernels/simd/vector_avx2.h"
#elif defined(ALCOVE_ISA_neon)
#include "kernels/simd/vector_neon.h"
#else
#include "kernels/simd/vector_scalar.h"
#endif

namespace alcove::kernels {
namespace {

#if defined(ALCOVE_ISA_avx512)
using Vector = Avx512;
#elif defined(ALCOVE_ISA_avx2)
using Vector = Avx2;
#elif defined(ALCOVE_ISA_neon)
using Vector = Neon;
#else
using Vector = Scalar;
#endif

}  // namespace
}  // namespace alcove::kernels
