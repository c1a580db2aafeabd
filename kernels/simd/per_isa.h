// Names the kernels of an `impl.cpp`, which CMake compiles once for each of scalar, avx2, avx512 and neon, with the flags of the
// instruction set and its name as ALCOVE_ISA.  Everything else in such a file has internal linkage, so that no inline function of
// one instruction set is chosen for all.
#pragma once

#define ALCOVE_JOIN_EXPANDED(name, isa) name##_##isa
#define ALCOVE_JOIN(name, isa) ALCOVE_JOIN_EXPANDED(name, isa)
// ALCOVE_PER_ISA(unary_f32) is unary_f32_avx2 in the file compiled for AVX2.
#define ALCOVE_PER_ISA(name) ALCOVE_JOIN(name, ALCOVE_ISA)
