// One row of the matte at a time, spread over a strip of columns, and with it the row of both images.
#include <cstdint>

#include "kernels/canonical.h"
#include "kernels/microkernels/composite/composite.h"
#include "kernels/microkernels/resize2d/taps.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

// Columns of a strip, and pixels whose matte is repeated for each channel at a time.
constexpr size_t kStrip = 1024, kBlock = 64;
constexpr size_t kColors = 3;

// Where a column of the strip reads.
struct Column {
  uint32_t left, right;
  float left_weight, right_weight;
};

void mix(const float* __restrict back, const float* __restrict front, const float* __restrict matte,
         float* __restrict output, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) output[i] = canonical_result(back[i] + matte[i] * (front[i] - back[i]));
}

// Pixels of kColors channels.
void mix_colors(const float* back, const float* front, const float* matte, float* output, size_t pixels) noexcept {
  float wide[kBlock * kColors];
  for (size_t first = 0; first < pixels; first += kBlock) {
    const size_t count = pixels - first < kBlock ? pixels - first : kBlock;
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < kColors; ++c) wide[i * kColors + c] = matte[first + i];
    }
    mix(back + first * kColors, front + first * kColors, wide, output + first * kColors, count * kColors);
  }
}

void mix_pixels(const float* back, const float* front, const float* matte, float* output, size_t pixels,
                size_t channels) noexcept {
  for (size_t i = 0; i < pixels; ++i, back += channels, front += channels, output += channels) {
    const float share = matte[i];
    for (size_t c = 0; c < channels; ++c) output[c] = canonical_result(back[c] + share * (front[c] - back[c]));
  }
}

// Gives rows of one matte at the columns of a strip; each line of the matte is taken across once.
class Rows {
 public:
  Rows(const CompositeF32& a, size_t first, size_t count) noexcept : a_(a), first_(first), count_(count) {
    for (size_t i = 0; a.is_resized && i < count; ++i) {
      const Taps taps = find_linear_taps(first + i, a.matte_w, a.width, a.step_w, a.align_corners);
      columns_[i] = {static_cast<uint32_t>(taps.at[0]), static_cast<uint32_t>(taps.at[1]), taps.weight[0],
                     taps.weight[1]};
    }
  }
  void begin(const float* matte) noexcept {
    matte_ = matte;
    lines_[0] = lines_[1] = a_.matte_h;
  }
  const float* find(size_t row) noexcept {
    if (!a_.is_resized) return matte_ + row * a_.width + first_;
    const Taps y = find_linear_taps(row, a_.matte_h, a_.height, a_.step_h, a_.align_corners);
    const float *upper = across(y.at[0], y.at[1]), *lower = across(y.at[1], y.at[0]);
    if (a_.matte_h == 1 && a_.height == 1) return upper;
    const float upper_weight = y.weight[0], lower_weight = y.weight[1];
    for (size_t i = 0; i < count_; ++i) {
      row_[i] = __builtin_fmaf(lower[i], lower_weight, upper[i] * upper_weight);
    }
    return row_;
  }

 private:
  const float* across(size_t line, size_t other) noexcept {
    for (size_t s = 0; s < 2; ++s) {
      if (lines_[s] == line) return held_[s];
    }
    const size_t s = lines_[0] == other ? 1 : 0;
    const float* const from = matte_ + line * a_.matte_w;
    for (size_t i = 0; i < count_; ++i) {
      const Column& column = columns_[i];
      held_[s][i] = __builtin_fmaf(from[column.right], column.right_weight, from[column.left] * column.left_weight);
    }
    lines_[s] = line;
    return held_[s];
  }

  const CompositeF32& a_;
  const size_t first_, count_;
  const float* matte_ = nullptr;
  size_t lines_[2] = {0, 0};  // which ones are held
  Column columns_[kStrip];
  float held_[2][kStrip], row_[kStrip];
};

void composite_strip(const CompositeF32& a, size_t first, size_t count) noexcept {
  Rows rows(a, first, count);
  const size_t plane = a.height * a.width;
  for (size_t image = 0; image < a.batch; ++image) {
    rows.begin(a.matte + image * a.matte_h * a.matte_w);
    for (size_t row = 0; row < a.height; ++row) {
      const float* const matte = rows.find(row);
      if (a.is_channels_last) {
        const size_t at = ((image * a.height + row) * a.width + first) * a.channels;
        if (a.channels == kColors) {
          mix_colors(a.back + at, a.front + at, matte, a.output + at, count);
        } else {
          mix_pixels(a.back + at, a.front + at, matte, a.output + at, count, a.channels);
        }
        continue;
      }
      for (size_t c = 0; c < a.channels; ++c) {
        const size_t at = (image * a.channels + c) * plane + row * a.width + first;
        mix(a.back + at, a.front + at, matte, a.output + at, count);
      }
    }
  }
}

void composite(const CompositeF32& a) noexcept {
  for (size_t first = 0; first < a.width; first += kStrip) {
    composite_strip(a, first, a.width - first < kStrip ? a.width - first : kStrip);
  }
}

}  // namespace

void ALCOVE_PER_ISA(composite_f32)(const CompositeF32& a) noexcept { composite(a); }

}  // namespace alcove::kernels
