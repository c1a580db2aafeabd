#include <cmath>
#include <cstring>

#include "kernels/microkernels/peak/chains.h"

namespace alcove::kernels {

namespace {

struct Floats {
  using Acc = float;
  using Operand = float;
  static constexpr uint64_t kProducts = 1;
  static Acc start() noexcept { return 0.0f; }
  static Operand operand() noexcept { return 1.0f; }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept { return std::fma(x, y, acc); }
#if defined(__aarch64__)
  static void hide(float& value) noexcept { asm volatile("" : "+w"(value)); }
#elif defined(__x86_64__)
  static void hide(float& value) noexcept { asm volatile("" : "+x"(value)); }
#else
  static void hide(float& value) noexcept { asm volatile("" : "+m"(value)); }
#endif
};

struct Bytes {
  using Acc = int32_t;
  using Operand = int32_t;  // an int8, widened
  static constexpr uint64_t kProducts = 1;
  static Acc start() noexcept { return 0; }
  static Operand operand() noexcept { return 1; }
  static Acc multiply_add(Acc acc, Operand x, Operand y) noexcept {
    return static_cast<Acc>(static_cast<uint32_t>(acc) + static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
  }
  static void hide(int32_t& value) noexcept { asm volatile("" : "+r"(value)); }
};

struct Words {
  using Block = uint64_t;
  static Block load(const uint8_t* p) noexcept {
    Block block;
    std::memcpy(&block, p, sizeof(block));
    return block;
  }
  static Block both(Block a, Block b) noexcept { return a ^ b; }
  static void hide(Block& value) noexcept { asm volatile("" : "+r"(value)); }
};

}  // namespace

uint64_t peak_f32_scalar(uint64_t rounds) noexcept { return chains<Floats>(rounds); }
uint64_t peak_i8_scalar(uint64_t rounds) noexcept { return chains<Bytes>(rounds); }
void read_scalar(const uint8_t* data, size_t size) noexcept { read_all<Words>(data, size); }

}  // namespace alcove::kernels
