#include <arm_neon.h>

#include "kernels/microkernels/peak/chains.h"

namespace alcove::kernels {

namespace {

struct Floats {
  using Acc = float32x4_t;
  using Operand = float32x4_t;
  static constexpr uint64_t kProducts = 4;
  static Acc start() noexcept { return vdupq_n_f32(0.0f); }
  static Operand operand() noexcept { return vdupq_n_f32(1.0f); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return vfmaq_f32(acc, x, y); }
  static void hide(float32x4_t& value) noexcept { asm volatile("" : "+w"(value)); }
};

// Products of 16 bits, pairs of them summed.
struct Bytes {
  using Acc = int32x4_t;
  using Operand = int8x8_t;
  static constexpr uint64_t kProducts = 8;
  static Acc start() noexcept { return vdupq_n_s32(0); }
  static Operand operand() noexcept { return vdup_n_s8(1); }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return vpadalq_s16(acc, vmull_s8(x, y)); }
  static void hide(int32x4_t& value) noexcept { asm volatile("" : "+w"(value)); }
  static void hide(int8x8_t& value) noexcept { asm volatile("" : "+w"(value)); }
};

struct Blocks {
  using Block = uint8x16_t;
  static Block load(const uint8_t* p) noexcept { return vld1q_u8(p); }
  static Block both(Block a, Block b) noexcept { return veorq_u8(a, b); }
  static void hide(Block& value) noexcept { asm volatile("" : "+w"(value)); }
};

}  // namespace

uint64_t peak_f32_neon(uint64_t rounds) noexcept { return chains<Floats>(rounds); }
uint64_t peak_i8_neon(uint64_t rounds) noexcept { return chains<Bytes>(rounds); }
void read_neon(const uint8_t* data, size_t size) noexcept { read_all<Blocks>(data, size); }

}  // namespace alcove::kernels
