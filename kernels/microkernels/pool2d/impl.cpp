// The loops of pooling, over channels innermost; the compiler makes vectors of them for each instruction set.  Of few channels,
// windows that step by one pixel are taken side by side: neighbors are a vector, and each sum keeps its order.
#include "kernels/canonical.h"
#include "kernels/long_sum.h"
#include "kernels/microkernels/pool2d/windows.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

// kChannels at a time stay in registers over a window.
constexpr size_t kChannels = 32;

template <bool kIsAverage>
void take(float* y, const float* x, size_t channels) noexcept {
  for (size_t c = 0; c < channels; ++c) {
    if constexpr (kIsAverage) {
      y[c] = y[c] + x[c];
    } else {
      y[c] = (x[c] > y[c]) | (x[c] != x[c]) ? x[c] : y[c];
    }
  }
}

size_t taps_in(const Taps& taps) noexcept {
  return taps.first < taps.end ? (taps.end - taps.first + taps.step - 1) / taps.step : 0;
}

template <bool kIsAverage, bool kIsLong = false>
void window(const Pool2dF32& a, const float* image, const Taps& rows, const Taps& columns, float count,
            float* output) noexcept {
  const size_t channels = a.windows.channels;
  for (size_t first = 0; first < channels; first += kChannels) {
    const size_t lanes = channels - first < kChannels ? channels - first : kChannels;
    float y[kChannels];
    for (size_t c = 0; c < kChannels; ++c) y[c] = kIsAverage ? 0.0f : -__builtin_inff();
    [[maybe_unused]] LongSums<kChannels> long_sums;
    [[maybe_unused]] size_t left = kSumBlock;  // of the block
    if constexpr (kIsLong) long_sums.clear();
    for (size_t row = rows.first; row < rows.end; row += rows.step) {
      for (size_t column = columns.first; column < columns.end; column += columns.step) {
        if constexpr (kIsLong) {
          if (left-- == 0) {
            long_sums.add(y);
            for (float& sum : y) sum = 0.0f;
            left = kSumBlock - 1;
          }
        }
        const float* x = image + (row * a.windows.in_w + column) * channels + first;
        if (lanes == kChannels) {
          take<kIsAverage>(y, x, kChannels);
        } else {
          take<kIsAverage>(y, x, lanes);
        }
      }
    }
    if constexpr (kIsAverage) {
      if constexpr (kIsLong) {
        long_sums.add(y);
        std::memcpy(y, long_sums.total(), sizeof y);
      }
      for (size_t c = 0; c < lanes; ++c) y[c] = y[c] / count;
    }
    for (size_t c = 0; c < lanes; ++c) output[first + c] = canonical(y[c]);
  }
}

float count_taps(const Pool2dF32& a, const Taps& rows, const Taps& columns) noexcept {
  if (rows.first >= rows.end || columns.first >= columns.end) return 1.0f;
  if (a.divisor != 0) return static_cast<float>(a.divisor);
  if (a.counts_padding) return static_cast<float>(rows.padded * columns.padded);
  return static_cast<float>((rows.end - rows.first) * (columns.end - columns.first));
}

// kBeside values of neighboring windows stay in registers.
constexpr size_t kBeside = 64;

// Windows whose columns all lie inside, from the one that begins at `first_column`; `values` of them, channels innermost.
template <bool kIsAverage>
void windows_beside(const Pool2dF32& a, const float* image, const Taps& rows, size_t first_column, size_t values,
                    float count, float* output) noexcept {
  const size_t channels = a.windows.channels;
  for (size_t first = 0; first < values; first += kBeside) {
    const size_t lanes = values - first < kBeside ? values - first : kBeside;
    float y[kBeside];
    for (size_t i = 0; i < kBeside; ++i) y[i] = kIsAverage ? 0.0f : -__builtin_inff();
    for (size_t row = rows.first; row < rows.end; row += rows.step) {
      const float* x = image + (row * a.windows.in_w + first_column) * channels + first;
      for (size_t tap = 0; tap < a.windows.kernel_w; ++tap, x += channels) {
        if (lanes == kBeside) {
          take<kIsAverage>(y, x, kBeside);
        } else {
          take<kIsAverage>(y, x, lanes);
        }
      }
    }
    if constexpr (kIsAverage) {
      for (size_t i = 0; i < lanes; ++i) y[i] = y[i] / count;
    }
    for (size_t i = 0; i < lanes; ++i) output[first + i] = canonical(y[i]);
  }
}

// The output columns whose windows have no column in the padding, where they are taken side by side; none otherwise.
struct Beside {
  size_t first, end;
};

Beside find_beside(const PoolWindows& w) noexcept {
  if (w.is_adaptive || w.stride_w != 1 || w.dilation_w != 1 || w.channels >= kChannels) return {0, 0};
  if (w.kernel_w > w.in_w) return {0, 0};
  const size_t end = w.in_w - w.kernel_w + w.pad_w + 1;
  return {w.pad_w, end < w.out_w ? end : w.out_w};
}

void pool(const Pool2dF32& a) noexcept {
  const PoolWindows& w = a.windows;
  const Beside beside = find_beside(w);
  float* output = a.output;
  for (size_t batch = 0; batch < w.batch; ++batch) {
    const float* image = a.input + batch * w.in_h * w.in_w * w.channels;
    for (size_t row = 0; row < w.out_h; ++row) {
      const Taps rows = find_rows(w, row);
      const bool is_beside = beside.first < beside.end && taps_in(rows) * w.kernel_w <= kLongestChain;
      for (size_t column = 0; column < w.out_w; ++column, output += w.channels) {
        const Taps columns = find_columns(w, column);
        if (is_beside && column == beside.first) {
          const size_t values = (beside.end - beside.first) * w.channels;
          if (a.is_average) {
            windows_beside<true>(a, image, rows, columns.first, values, count_taps(a, rows, columns), output);
          } else {
            windows_beside<false>(a, image, rows, columns.first, values, 1.0f, output);
          }
          output += values - w.channels;
          column = beside.end - 1;
          continue;
        }
        if (a.is_average && taps_in(rows) * taps_in(columns) > kLongestChain) {
          window<true, true>(a, image, rows, columns, count_taps(a, rows, columns), output);
        } else if (a.is_average) {
          window<true>(a, image, rows, columns, count_taps(a, rows, columns), output);
        } else {
          window<false>(a, image, rows, columns, 1.0f, output);
        }
      }
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(pool2d_f32)(const Pool2dF32& a) noexcept { pool(a); }

}  // namespace alcove::kernels
