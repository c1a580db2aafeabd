// Lanes16, sixteen outputs at a time, of the instruction set that an `impl.cpp` is compiled for.
#pragma once

#if defined(ALCOVE_ISA_avx512)
#include "kernels/simd/lanes16_avx512.h"
#elif defined(ALCOVE_ISA_avx2)
#include "kernels/simd/lanes16_avx2.h"
#elif defined(ALCOVE_ISA_neon)
#include "kernels/simd/lanes16_neon.h"
#else
#include "kernels/simd/lanes16_scalar.h"
#endif
