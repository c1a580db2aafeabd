// The loops of max_pool2d_i8, over channels innermost; the compiler makes vectors of them for each instruction set.
#include <cstring>

#include "kernels/microkernels/pool2d/windows.h"
#include "kernels/microkernels/pool2d_i8/pool2d_i8.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

Taps rows_of(const MaxPool2dI8& a, size_t row) noexcept {
  return find_taps(row, false, a.in_h, a.out_h, a.kernel_h, a.stride_h, a.pad_h, a.dilation_h);
}

Taps columns_of(const MaxPool2dI8& a, size_t column) noexcept {
  return find_taps(column, false, a.in_w, a.out_w, a.kernel_w, a.stride_w, a.pad_w, a.dilation_w);
}

constexpr size_t kChannels = 16;
typedef int8_t Lanes __attribute__((vector_size(kChannels)));

// Of kChannels at a time, which stay in a register over the window; the last ones may be done twice.
void window(const int8_t* image, size_t in_w, size_t channels, const Taps& rows, const Taps& columns,
            int8_t* output) noexcept {
  for (size_t first = 0; first < channels; first += kChannels) {
    const size_t c = first + kChannels <= channels ? first : channels - kChannels;
    Lanes greatest;
    std::memset(&greatest, 0x80, sizeof greatest);
    for (size_t row = rows.first; row < rows.end; row += rows.step) {
      const int8_t* x = image + (row * in_w + columns.first) * channels + c;
      for (size_t column = columns.first; column < columns.end; column += columns.step, x += columns.step * channels) {
        Lanes tap;
        std::memcpy(&tap, x, sizeof tap);
        greatest = tap > greatest ? tap : greatest;
      }
    }
    std::memcpy(output + c, &greatest, sizeof greatest);
  }
}

void narrow_window(const int8_t* image, size_t in_w, size_t channels, const Taps& rows, const Taps& columns,
                   int8_t* output) noexcept {
  std::memset(output, 0x80, channels);
  for (size_t row = rows.first; row < rows.end; row += rows.step) {
    for (size_t column = columns.first; column < columns.end; column += columns.step) {
      const int8_t* x = image + (row * in_w + column) * channels;
      for (size_t c = 0; c < channels; ++c) output[c] = x[c] > output[c] ? x[c] : output[c];
    }
  }
}

void max_pool(const MaxPool2dI8& a) noexcept {
  const auto pool = a.channels < kChannels ? narrow_window : window;
  int8_t* y = a.output;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    const int8_t* image = a.input + batch * a.in_h * a.in_w * a.channels;
    for (size_t row = 0; row < a.out_h; ++row) {
      const Taps rows = rows_of(a, row);
      for (size_t column = 0; column < a.out_w; ++column, y += a.channels) {
        pool(image, a.in_w, a.channels, rows, columns_of(a, column), y);
      }
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(max_pool2d_i8)(const MaxPool2dI8& a) noexcept { max_pool(a); }

}  // namespace alcove::kernels
