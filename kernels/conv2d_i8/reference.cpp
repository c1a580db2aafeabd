// The only conv2d_i8: it copies, `linear` computes.
#include "kernels/conv2d_i8/conv2d_i8.h"

#include <cstring>

#include "kernels/requantise.h"

namespace alcove::kernels {

namespace {

void gather(const Conv2dI8& a, size_t first, size_t count, size_t group) noexcept {
  const size_t channels = a.groups * a.in_c;
  const int64_t height = static_cast<int64_t>(a.in_h), width = static_cast<int64_t>(a.in_w);
  int8_t* patch = a.scratch;
  for (size_t pixel = first; pixel < first + count; ++pixel) {
    const size_t batch = pixel / (a.out_w * a.out_h);
    const int64_t top = static_cast<int64_t>(pixel / a.out_w % a.out_h * a.stride_h) - static_cast<int64_t>(a.pad_top);
    const int64_t left = static_cast<int64_t>(pixel % a.out_w * a.stride_w) - static_cast<int64_t>(a.pad_left);
    for (size_t i = 0; i < a.kernel_h; ++i) {
      const int64_t row = top + static_cast<int64_t>(i * a.dilation_h);
      if (row < 0 || row >= height) {
        std::memset(patch, a.input_zero_point, a.kernel_w * a.in_c);
        patch += a.kernel_w * a.in_c;
        continue;
      }
      const int8_t* line = a.input + (batch * a.in_h + static_cast<size_t>(row)) * a.in_w * channels + group * a.in_c;
      if (a.groups == 1 && a.dilation_w == 1 && left >= 0 && left + static_cast<int64_t>(a.kernel_w) <= width) {
        std::memcpy(patch, line + static_cast<size_t>(left) * channels, a.kernel_w * channels);
        patch += a.kernel_w * channels;
        continue;
      }
      for (size_t j = 0; j < a.kernel_w; ++j, patch += a.in_c) {
        const int64_t column = left + static_cast<int64_t>(j * a.dilation_w);
        if (column < 0 || column >= width) {
          std::memset(patch, a.input_zero_point, a.in_c);
        } else {
          std::memcpy(patch, line + static_cast<size_t>(column) * channels, a.in_c);
        }
      }
    }
  }
}

}  // namespace

void conv2d_i8_reference(const Conv2dI8& a) noexcept {
  const size_t patch = a.kernel_h * a.kernel_w * a.in_c;
  const size_t pixels = a.batch * a.out_h * a.out_w;
  const size_t channels = a.groups * a.out_c;
  const size_t group_bytes = (a.out_c + 15) / 16 * panel_bytes_i8(patch);
  const bool reads_in_place = a.kernel_h == 1 && a.kernel_w == 1 && a.groups == 1 && a.stride_h == 1 && a.stride_w == 1 &&
                              a.pad_top == 0 && a.pad_left == 0 && a.out_h == a.in_h && a.out_w == a.in_w;
  const size_t block = reads_in_place ? pixels : kConv2dI8Block;
  for (size_t first = 0; first < pixels; first += block) {
    const size_t count = pixels - first < block ? pixels - first : block;
    for (size_t group = 0; group < a.groups; ++group) {
      if (!reads_in_place) gather(a, first, count, group);
      const int8_t* input = reads_in_place ? a.input : a.scratch;
      int8_t* output = a.output + first * channels + group * a.out_c;
      a.linear({input, patch, a.panels + group * group_bytes, output, channels, nullptr, count, a.out_c, patch, a.zero_point,
                a.low, a.high});
    }
  }
}

}  // namespace alcove::kernels
