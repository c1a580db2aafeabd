// Chooses the kernel of each (op, dtype) on a given instruction set, once, when a program is opened.
#pragma once

#include "kernels/all.h"  // made by CMake: the header of each folder
#include "kernels/isa.h"

namespace alcove::kernels {

// One slot per (op, dtype) of the manifest, with the type of its scalar kernel; the names are op_dtype.
struct KernelTable {
  Isa isa;
#define ALCOVE_SLOT_scalar(op, dtype, function) decltype(&function) op##_##dtype;
#define ALCOVE_SLOT_avx2(op, dtype, function)
#define ALCOVE_SLOT_avx512(op, dtype, function)
#define ALCOVE_SLOT_avx512_vnni(op, dtype, function)
#define ALCOVE_SLOT_avx512_vbmi(op, dtype, function)
#define ALCOVE_SLOT_neon(op, dtype, function)
#define ALCOVE_SLOT_neon_dotprod(op, dtype, function)
#define ALCOVE_SLOT_neon_i8mm(op, dtype, function)
#define ALCOVE_KERNEL(op, dtype, needs, function) ALCOVE_SLOT_##needs(op, dtype, function)
#include "kernels/manifest.inc"
#undef ALCOVE_SLOT_scalar
#undef ALCOVE_SLOT_avx2
#undef ALCOVE_SLOT_avx512
#undef ALCOVE_SLOT_avx512_vnni
#undef ALCOVE_SLOT_avx512_vbmi
#undef ALCOVE_SLOT_neon
#undef ALCOVE_SLOT_neon_dotprod
#undef ALCOVE_SLOT_neon_i8mm
};

// Precondition: machine_has(isa).
[[nodiscard]] KernelTable kernels_for(Isa isa) noexcept;

}  // namespace alcove::kernels
