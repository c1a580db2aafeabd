// Computes the taps of each pooling window.  Internal linkage: several instruction sets include this.
#pragma once

#include "kernels/microkernels/pool2d/pool2d.h"

namespace alcove::kernels {

namespace {

// Taps first, first + step, ... below end, all inside the input; none if first >= end.
struct Taps {
  size_t first, end, step;
  size_t padded;  // how many an average counts with padding
};

[[maybe_unused]] Taps find_taps(size_t o, bool is_adaptive, size_t in, size_t out, size_t kernel, size_t stride,
                                size_t pad, size_t dilation) noexcept {
  if (is_adaptive) {
    const size_t first = o * in / out;
    const size_t end = ((o + 1) * in + out - 1) / out;
    return {first, end, 1, end - first};
  }
  // Measured from pad positions before the input, so that nothing is negative.
  const size_t start = o * stride;
  const size_t stop = start + (kernel - 1) * dilation + 1;
  const size_t limit = in + 2 * pad;
  const size_t padded_end = stop < limit ? stop : limit;
  const size_t skipped = start < pad ? (pad - start + dilation - 1) / dilation : 0;
  const size_t first = start + skipped * dilation - pad;
  const size_t end = stop <= pad ? 0 : stop - pad < in ? stop - pad : in;
  return {first, end, dilation, padded_end > start ? padded_end - start : 0};
}

[[maybe_unused]] Taps find_rows(const PoolWindows& w, size_t row) noexcept {
  return find_taps(row, w.is_adaptive, w.in_h, w.out_h, w.kernel_h, w.stride_h, w.pad_h, w.dilation_h);
}

[[maybe_unused]] Taps find_columns(const PoolWindows& w, size_t column) noexcept {
  return find_taps(column, w.is_adaptive, w.in_w, w.out_w, w.kernel_w, w.stride_w, w.pad_w, w.dilation_w);
}

}  // namespace

}  // namespace alcove::kernels
