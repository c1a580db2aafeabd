#include <immintrin.h>

#include "kernels/microkernels/peak/chains.h"

namespace alcove::kernels {

namespace {

struct Floats {
  using Acc = __m256;
  using Operand = __m256;
  static constexpr uint64_t kProducts = sizeof(__m256) / sizeof(float);
  static Acc start() noexcept { return _mm256_setzero_ps(); }
  static Operand operand() noexcept { return _mm256_set1_ps(1.0f); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return _mm256_fmadd_ps(x, y, acc); }
  static void hide(__m256& value) noexcept { asm volatile("" : "+x"(value)); }
};

// Of bytes widened to 16 bits, pairs of products summed.
struct Bytes {
  using Acc = __m256i;
  using Operand = __m256i;
  static constexpr uint64_t kProducts = sizeof(__m256i) / sizeof(int16_t);
  static Acc start() noexcept { return _mm256_setzero_si256(); }
  static Operand operand() noexcept { return _mm256_set1_epi16(1); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(x, y));
  }
  static void hide(__m256i& value) noexcept { asm volatile("" : "+x"(value)); }
};

struct Blocks {
  using Block = __m256i;
  static Block load(const uint8_t* p) noexcept { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
  static Block both(Block a, Block b) noexcept { return _mm256_xor_si256(a, b); }
  static void hide(Block& value) noexcept { asm volatile("" : "+x"(value)); }
};

}  // namespace

uint64_t peak_f32_avx2(uint64_t rounds) noexcept { return chains<Floats>(rounds); }
uint64_t peak_i8_avx2(uint64_t rounds) noexcept { return chains<Bytes>(rounds); }
void read_avx2(const uint8_t* data, size_t size) noexcept { read_all<Blocks>(data, size); }

}  // namespace alcove::kernels
