// linear_qd8_qb4w, one output at a time.
#include "kernels/simd/lanes16_scalar.h"
#include "kernels/microkernels/linear_qd8_qb4w/tiles.h"
#include "kernels/simd/vector_scalar.h"

namespace alcove::kernels {

namespace {

struct One {
  using V = Scalar;
  using Words = int32_t;
  static Words fill(int32_t value) noexcept { return value; }
  static void unpack(const int8_t* words, Words (&w)[8]) noexcept {
    for (size_t i = 0; i < 4; ++i) {
      uint32_t word;
      std::memcpy(&word, words + 64 * i, 4);
      w[2 * i] = static_cast<int32_t>(word & 0x0F0F0F0Fu);
      w[2 * i + 1] = static_cast<int32_t>(word >> 4 & 0x0F0F0F0Fu);
    }
  }
  static Words dot(const Words (&w)[8], const int8_t* q, Words acc) noexcept {
    for (int i = 0; i < 32; ++i) acc += (w[i / 4] >> 8 * (i % 4) & 15) * q[i];
    return acc;
  }
  static float to_floats(Words acc) noexcept { return static_cast<float>(acc); }
  static float load_scales(const int8_t* p) noexcept {
    uint16_t upper;
    std::memcpy(&upper, p, 2);
    return std::bit_cast<float>(static_cast<uint32_t>(upper) << 16);
  }
};

}  // namespace

void linear_qd8_qb4w_scalar(const LinearQd8Qb4w& a) noexcept { multiply<One, 1>(a); }

}  // namespace alcove::kernels
