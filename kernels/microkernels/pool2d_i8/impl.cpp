// The loop of max_pool2d_i8, compiled once for each instruction set.
#include <cstring>

#include "kernels/microkernels/pool2d_i8/pool2d_i8.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

void max_pool(const MaxPool2dI8& a) noexcept {
  int8_t* y = a.output;
  for (size_t pixel = 0; pixel < a.batch * a.out_h * a.out_w; ++pixel, y += a.channels) {
    const size_t batch = pixel / (a.out_w * a.out_h), out_row = pixel / a.out_w % a.out_h, out_column = pixel % a.out_w;
    std::memset(y, 0x80, a.channels);
    for (size_t i = 0; i < a.kernel_h; ++i) {
      const int64_t row = static_cast<int64_t>(out_row * a.stride_h + i * a.dilation_h) - static_cast<int64_t>(a.pad_h);
      if (row < 0 || row >= static_cast<int64_t>(a.in_h)) continue;
      for (size_t j = 0; j < a.kernel_w; ++j) {
        const int64_t column =
            static_cast<int64_t>(out_column * a.stride_w + j * a.dilation_w) - static_cast<int64_t>(a.pad_w);
        if (column < 0 || column >= static_cast<int64_t>(a.in_w)) continue;
        const int8_t* x =
            a.input + ((batch * a.in_h + static_cast<size_t>(row)) * a.in_w + static_cast<size_t>(column)) * a.channels;
        for (size_t c = 0; c < a.channels; ++c) y[c] = x[c] > y[c] ? x[c] : y[c];
      }
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(max_pool2d_i8)(const MaxPool2dI8& a) noexcept { max_pool(a); }

}  // namespace alcove::kernels
