// NEON lookup: 16 elements at a time, in 4 tables of 64.
#include <arm_neon.h>

#include "kernels/microkernels/lut_i8/lut_i8.h"

namespace alcove::kernels {

void lut_i8_neon_16(const LutI8& a) noexcept {
  int8x16x4_t tables[4];
  for (int t = 0; t < 4; ++t) tables[t] = vld1q_s8_x4(a.table + 64 * t);
  size_t i = 0;
  for (; i + 16 <= a.count; i += 16) {
    const uint8x16_t index = vreinterpretq_u8_s8(veorq_s8(vld1q_s8(a.input + i), vdupq_n_s8(-128)));
    // What is outside a table leaves the result alone.
    int8x16_t y = vqtbl4q_s8(tables[0], index);
    y = vqtbx4q_s8(y, tables[1], vsubq_u8(index, vdupq_n_u8(64)));
    y = vqtbx4q_s8(y, tables[2], vsubq_u8(index, vdupq_n_u8(128)));
    y = vqtbx4q_s8(y, tables[3], vsubq_u8(index, vdupq_n_u8(192)));
    vst1q_s8(a.output + i, y);
  }
  for (; i < a.count; ++i) a.output[i] = a.table[a.input[i] + 128];
}

}  // namespace alcove::kernels
