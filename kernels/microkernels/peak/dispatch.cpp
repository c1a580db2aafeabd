#include "kernels/microkernels/peak/peak.h"

namespace alcove::kernels {

PeakTable peaks_for(Isa isa) noexcept {
  PeakTable table = {&peak_f32_scalar, &peak_i8_scalar, &read_scalar};
#if defined(__x86_64__)
  if (isa >= Isa::avx2) table = {&peak_f32_avx2, &peak_i8_avx2, &read_avx2};
  if (isa >= Isa::avx512) table = {&peak_f32_avx512, &peak_i8_avx512, &read_avx512};
  if (isa >= Isa::avx512_vnni) table.i8 = &peak_i8_avx512_vnni;
#elif defined(__aarch64__)
  if (isa >= Isa::neon) table = {&peak_f32_neon, &peak_i8_neon, &read_neon};
  if (isa >= Isa::neon_dotprod) table.i8 = &peak_i8_neon_dotprod;
  if (isa >= Isa::neon_i8mm) table.i8 = &peak_i8_neon_i8mm;
#else
  (void)isa;
#endif
  return table;
}

}  // namespace alcove::kernels
