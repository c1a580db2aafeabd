#include <immintrin.h>

#include "kernels/microkernels/peak/chains.h"

namespace alcove::kernels {

namespace {

struct Floats {
  using Acc = __m512;
  using Operand = __m512;
  static constexpr uint64_t kProducts = sizeof(__m512) / sizeof(float);
  static Acc start() noexcept { return _mm512_setzero_ps(); }
  static Operand operand() noexcept { return _mm512_set1_ps(1.0f); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return _mm512_fmadd_ps(x, y, acc); }
  static void hide(__m512& value) noexcept { asm volatile("" : "+v"(value)); }
};

// Of bytes widened to 16 bits, pairs of products summed.
struct Bytes {
  using Acc = __m512i;
  using Operand = __m512i;
  static constexpr uint64_t kProducts = sizeof(__m512i) / sizeof(int16_t);
  static Acc start() noexcept { return _mm512_setzero_si512(); }
  static Operand operand() noexcept { return _mm512_set1_epi16(1); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept {
    return _mm512_add_epi32(acc, _mm512_madd_epi16(x, y));
  }
  static void hide(__m512i& value) noexcept { asm volatile("" : "+v"(value)); }
};

struct Blocks {
  using Block = __m512i;
  static Block load(const uint8_t* p) noexcept { return _mm512_load_si512(p); }
  static Block both(Block a, Block b) noexcept { return _mm512_xor_si512(a, b); }
  static void hide(Block& value) noexcept { asm volatile("" : "+v"(value)); }
};

}  // namespace

uint64_t peak_f32_avx512(uint64_t rounds) noexcept { return chains<Floats>(rounds); }
uint64_t peak_i8_avx512(uint64_t rounds) noexcept { return chains<Bytes>(rounds); }
void read_avx512(const uint8_t* data, size_t size) noexcept { read_all<Blocks>(data, size); }

}  // namespace alcove::kernels
