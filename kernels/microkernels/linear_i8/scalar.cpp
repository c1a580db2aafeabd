// Products of int8, one number at a time.
#include "kernels/microkernels/linear_i8/linear_i8.h"

#include "kernels/requantize.h"

namespace alcove::kernels {

void linear_i8_scalar(const LinearI8& a) noexcept {
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t width = (a.n + 15) / 16 * 16;
  for (size_t row = 0; row < a.m; ++row) {
    const int8_t* x = a.input + row * a.input_stride;
    for (size_t column = 0; column < a.n; ++column) {
      const int8_t* panel = a.panels + column / 16 * panel_bytes_i8(a.k);
      const size_t c = column % 16;
      uint32_t acc = 0;
      for (size_t k = 0; k < a.k; ++k) {
        const int32_t w = panel[kPanelHeadBytes + k / 4 * 64 + c * 4 + k % 4];
        acc += static_cast<uint32_t>(x[k] * w);
      }
      if (a.sums != nullptr) {
        a.sums[row * width + column] = static_cast<int32_t>(acc);
        continue;
      }
      uint32_t bias;
      float scale;
      std::memcpy(&bias, panel + c * 4, 4);
      std::memcpy(&scale, panel + 64 + c * 4, 4);
      a.output[row * a.output_stride + column] =
          requantize(static_cast<float>(static_cast<int32_t>(acc + bias)) * scale, range);
    }
    for (size_t c = a.n; a.sums != nullptr && c < width; ++c) a.sums[row * width + c] = 0;
  }
}

}  // namespace alcove::kernels
