// Runs multiply-adds and reads at the machine's peak rates.  No operator: what a profile compares operators with.
//
// Multiply-adds are of registers alone, in chains that don't depend on each other, by the instructions that the kernels of that
// instruction set have for them; reads are of all bytes of a block, in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"

namespace alcove::kernels {

// Does so many rounds; returns how many multiply-adds they were.
using PeakKernel = uint64_t(uint64_t rounds) noexcept;
// Reads `size` bytes, a multiple of 1024, from an address aligned to 64.
using ReadKernel = void(const uint8_t* data, size_t size) noexcept;

PeakKernel peak_f32_scalar, peak_f32_avx2, peak_f32_avx512, peak_f32_neon;
PeakKernel peak_i8_scalar, peak_i8_avx2, peak_i8_avx512, peak_i8_avx512_vnni, peak_i8_neon, peak_i8_neon_dotprod,
    peak_i8_neon_i8mm;
ReadKernel read_scalar, read_avx2, read_avx512, read_neon;

struct PeakTable {
  PeakKernel* f32;
  PeakKernel* i8;
  ReadKernel* read;
};

// Precondition: machine_has(isa).
[[nodiscard]] PeakTable peaks_for(Isa isa) noexcept;

}  // namespace alcove::kernels
