// NEON lookup: 16 elements at a time, in 4 tables of 64.
#include <arm_neon.h>

#include <cstddef>

#include "kernels/microkernels/lut_i8/lut_i8.h"

namespace alcove::kernels {

namespace {

// The next 16 elements of kVectors; returns how many are left.  Compilers load the tables, which are 16 registers side by side,
// anew for each turn: two vectors share them.
template <size_t kVectors>
size_t look_up(const int8x16x4_t (&tables)[4], const int8_t*& input, int8_t*& output, size_t count) noexcept {
  for (; count >= 16 * kVectors; count -= 16 * kVectors, input += 16 * kVectors, output += 16 * kVectors) {
    uint8x16_t index[kVectors];
    int8x16_t y[kVectors];
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      index[v] = vreinterpretq_u8_s8(veorq_s8(vld1q_s8(input + 16 * v), vdupq_n_s8(-128)));
      y[v] = vqtbl4q_s8(tables[0], index[v]);
    }
#pragma GCC unroll 4
    for (int t = 1; t < 4; ++t) {
      // What is outside a table leaves the result alone.
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) {
        y[v] = vqtbx4q_s8(y[v], tables[t], vsubq_u8(index[v], vdupq_n_u8(static_cast<uint8_t>(64 * t))));
      }
    }
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) vst1q_s8(output + 16 * v, y[v]);
  }
  return count;
}

}  // namespace

void lut_i8_neon_16(const LutI8& a) noexcept {
  int8x16x4_t tables[4];
  for (int t = 0; t < 4; ++t) tables[t] = vld1q_s8_x4(a.table + 64 * t);
  const int8_t* input = a.input;
  int8_t* output = a.output;
  size_t left = look_up<2>(tables, input, output, a.count);
  left = look_up<1>(tables, input, output, left);
  for (size_t i = 0; i < left; ++i) output[i] = a.table[input[i] + 128];
}

}  // namespace alcove::kernels
