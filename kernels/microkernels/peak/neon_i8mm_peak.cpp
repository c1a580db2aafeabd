#include <arm_neon.h>

#include "kernels/microkernels/peak/chains.h"

namespace alcove::kernels {

namespace {

struct Bytes {
  using Acc = int32x4_t;
  using Operand = int8x16_t;
  static constexpr uint64_t kProducts = 32;
  static Acc start() noexcept { return vdupq_n_s32(0); }
  static Operand operand() noexcept { return vdupq_n_s8(1); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return vmmlaq_s32(acc, x, y); }
  static void hide(int32x4_t& value) noexcept { asm volatile("" : "+w"(value)); }
  static void hide(int8x16_t& value) noexcept { asm volatile("" : "+w"(value)); }
};

}  // namespace

uint64_t peak_i8_neon_i8mm(uint64_t rounds) noexcept { return chains<Bytes>(rounds); }

}  // namespace alcove::kernels
