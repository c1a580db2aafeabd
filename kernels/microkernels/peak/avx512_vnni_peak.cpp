#include <immintrin.h>

#include "kernels/microkernels/peak/chains.h"

namespace alcove::kernels {

namespace {

struct Bytes {
  using Acc = __m512i;
  using Operand = __m512i;
  static constexpr uint64_t kProducts = 64;
  static Acc start() noexcept { return _mm512_setzero_si512(); }
  static Operand operand() noexcept { return _mm512_set1_epi8(1); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return _mm512_dpbusd_epi32(acc, x, y); }
  static void hide(__m512i& value) noexcept { asm volatile("" : "+v"(value)); }
};

}  // namespace

uint64_t peak_i8_avx512_vnni(uint64_t rounds) noexcept { return chains<Bytes>(rounds); }

}  // namespace alcove::kernels
