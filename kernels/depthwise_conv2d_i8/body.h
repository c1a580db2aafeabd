// The loops of depthwise_conv2d_i8, for the Lanes16 of an instruction set, which the including file brings.
#pragma once

#include "kernels/depthwise_conv2d_i8/depthwise_conv2d_i8.h"
#include "kernels/requantise.h"

namespace alcove::kernels {

namespace {

// Sixteen channels of kPixels neighbours in a row of the output; their columns are inside the input if kPixels > 1.
template <int kPixels>
void tile(const DepthwiseConv2dI8& a, size_t batch, int64_t top, int64_t left, size_t panel, int8_t* output,
          const Int8Range& range) noexcept {
  const int8_t* head = a.panels + panel * depthwise_panel_bytes_i8(a.kernel_h * a.kernel_w);
  const int8_t* weights = head + 128;
  const size_t first = panel * 16;
  const size_t lanes = a.channels - first;
  Lanes16::Words acc[kPixels];
  for (int p = 0; p < kPixels; ++p) acc[p] = Lanes16::zero();
  for (size_t i = 0; i < a.kernel_h; ++i) {
    const int64_t row = top + static_cast<int64_t>(i * a.dilation_h);
    const bool is_row = row >= 0 && row < static_cast<int64_t>(a.in_h);
    const int8_t* line = is_row ? a.input + (batch * a.in_h + static_cast<size_t>(row)) * a.in_w * a.channels + first : nullptr;
    for (size_t j = 0; j < a.kernel_w; ++j, weights += 16) {
      const Lanes16::Words w = Lanes16::widen(weights);
      const int64_t column = left + static_cast<int64_t>(j * a.dilation_w);
      for (int p = 0; p < kPixels; ++p) {
        const int64_t at = column + p * static_cast<int64_t>(a.stride_w);
        const bool is_inside = is_row && (kPixels > 1 || (at >= 0 && at < static_cast<int64_t>(a.in_w)));
        const Lanes16::Words x = is_inside ? Lanes16::widen_some(line + static_cast<size_t>(at) * a.channels, lanes)
                                           : Lanes16::fill_words(a.input_zero_point);
        acc[p] = Lanes16::multiply_add(x, w, acc[p]);
      }
    }
  }
  const Lanes16::Words bias = Lanes16::load_words(head);
  const Lanes16::Floats scale = Lanes16::load(head + 64);
  for (int p = 0; p < kPixels; ++p) {
    const Lanes16::Floats v = Lanes16::multiply(Lanes16::to_floats(Lanes16::add(acc[p], bias)), scale);
    Lanes16::requantise_store(output + static_cast<size_t>(p) * a.channels, lanes, v, range);
  }
}

void convolve(const DepthwiseConv2dI8& a) noexcept {
  constexpr size_t kPixels = 4;
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const size_t panels = (a.channels + 15) / 16;
  const auto stride = static_cast<int64_t>(a.stride_w);
  const auto reach = static_cast<int64_t>((kPixels - 1) * a.stride_w + (a.kernel_w - 1) * a.dilation_w);
  int8_t* output = a.output;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    for (size_t row = 0; row < a.out_h; ++row) {
      const int64_t top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
      for (size_t column = 0; column < a.out_w;) {
        const int64_t left = static_cast<int64_t>(column) * stride - static_cast<int64_t>(a.pad_left);
        const bool is_whole = left >= 0 && left + reach < static_cast<int64_t>(a.in_w) && column + kPixels <= a.out_w;
        for (size_t panel = 0; panel < panels; ++panel) {
          if (is_whole) {
            tile<kPixels>(a, batch, top, left, panel, output + panel * 16, range);
          } else {
            tile<1>(a, batch, top, left, panel, output + panel * 16, range);
          }
        }
        column += is_whole ? kPixels : 1;
        output += (is_whole ? kPixels : 1) * a.channels;
      }
    }
  }
}

}  // namespace

}  // namespace alcove::kernels
