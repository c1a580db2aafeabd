// The loops of resizing, over channels innermost; the compiler makes vectors of them for each instruction set.
#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/cubic.h"
#include "kernels/microkernels/resize2d/resize2d.h"
#include "kernels/microkernels/resize2d/taps.h"
#include "kernels/simd/per_isa.h"
#include "kernels/simd/vector.h"

namespace alcove::kernels {

namespace {

// Columns of the output whose taps are found at a time, and floats of a line of them.
constexpr size_t kStrip = 128, kHeldFloats = 2048;

size_t nearest(size_t o, size_t in, float step, bool is_exact) noexcept {
  const float position = is_exact ? (static_cast<float>(o) + 0.5f) * step : static_cast<float>(o) * step;
  return hold_inside(__builtin_floorf(position), in);
}

Taps find_cubic_taps(size_t o, size_t in, float step, bool align_corners) noexcept {
  const float s = align_corners ? static_cast<float>(o) * step : (static_cast<float>(o) + 0.5f) * step - 0.5f;
  const float i = __builtin_floorf(s);
  Taps taps;
  cubic_weights(s - i, taps.weight);
  for (int t = 0; t < 4; ++t) taps.at[t] = hold_inside(i + static_cast<float>(t - 1), in);
  return taps;
}

void resize_nearest(const Resize2dF32& a) noexcept {
  const bool is_exact = a.mode == ResizeMode::kNearestExact;
  float* output = a.output;
  for (size_t line = 0; line < a.batch * a.out_h; ++line) {
    const size_t row = line / a.out_h * a.in_h + nearest(line % a.out_h, a.in_h, a.step_h, is_exact);
    for (size_t column = 0; column < a.out_w; ++column, output += a.channels) {
      const float* input = a.input + (row * a.in_w + nearest(column, a.in_w, a.step_w, is_exact)) * a.channels;
      std::memcpy(output, input, a.channels * sizeof(float));
    }
  }
}

#if defined(ALCOVE_ISA_neon)
// The blend of as many floats as so many vectors have, over and over; returns how many are left, with the pointers behind.
template <size_t kVectors>
size_t blend_vectors(const float*& p, float p_weight, const float*& q, float q_weight, float*& y,
                     size_t count) noexcept {
  constexpr size_t kFloats = kVectors * Neon::kWidth;
  const Neon::Register a = Neon::fill(p_weight), b = Neon::fill(q_weight);
#pragma GCC unroll 1
  for (size_t times = count / kFloats; times > 0; --times) {
    Neon::Register sums[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) sums[v] = Neon::multiply(vld1q_f32(p + v * Neon::kWidth), a);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) sums[v] = Neon::fma(vld1q_f32(q + v * Neon::kWidth), b, sums[v]);
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) vst1q_f32(y + v * Neon::kWidth, sums[v]);
    p = Neon::step(p, kFloats);  // or the compiler finds anew where they are behind the loop
    q = Neon::step(q, kFloats);
    y = Neon::step(y, kFloats);
  }
  return count % kFloats;
}
#endif

// fma(q, q_weight, p * p_weight), canonical if they are outputs.
template <bool kIsOutput>
void blend(const float* p, float p_weight, const float* q, float q_weight, float* y, size_t count) noexcept {
#if defined(ALCOVE_ISA_neon)
  // By eights and fours: of single vectors counting takes as long as computing.
  count = blend_vectors<8>(p, p_weight, q, q_weight, y, count);
  count = blend_vectors<4>(p, p_weight, q, q_weight, y, count);
  count = blend_vectors<1>(p, p_weight, q, q_weight, y, count);
#endif
  for (size_t i = 0; i < count; ++i) {
    const float result = __builtin_fmaf(q[i], q_weight, p[i] * p_weight);
    y[i] = kIsOutput ? canonical_result(result) : result;
  }
}

// One line of the input at the columns of a strip, in [column][channel].
void bilinear_across(const Resize2dF32& a, const float* line, const Taps* columns, size_t count,
                     float* across) noexcept {
  if (a.channels == 1) {
    for (size_t i = 0; i < count; ++i) {
      across[i] =
          __builtin_fmaf(line[columns[i].at[1]], columns[i].weight[1], line[columns[i].at[0]] * columns[i].weight[0]);
    }
    return;
  }
  for (size_t i = 0; i < count; ++i, across += a.channels) {
    const float *left = line + columns[i].at[0] * a.channels, *right = line + columns[i].at[1] * a.channels;
    blend<false>(left, columns[i].weight[0], right, columns[i].weight[1], across, a.channels);
  }
}

void bilinear_pixel(const Resize2dF32& a, const float* image, const Taps& y, const Taps& x, float* output) noexcept {
  const float *upper = image + y.at[0] * a.in_w * a.channels, *lower = image + y.at[1] * a.in_w * a.channels;
  const size_t left = x.at[0] * a.channels, right = x.at[1] * a.channels;
  const float x0 = x.weight[0], x1 = x.weight[1], y0 = y.weight[0], y1 = y.weight[1];
  const bool is_line = a.in_h == 1 && a.out_h == 1;
  for (size_t c = 0; c < a.channels; ++c) {
    const float top = __builtin_fmaf(upper[right + c], x1, upper[left + c] * x0);
    const float bottom = __builtin_fmaf(lower[right + c], x1, lower[left + c] * x0);
    output[c] = canonical(is_line ? top : __builtin_fmaf(bottom, y1, top * y0));
  }
}

// A strip of an image: each line of the input is taken across once, for all rows of the output between it and its neighbours.
void bilinear_strip(const Resize2dF32& a, const float* image, const Taps* columns, size_t count,
                    float* output) noexcept {
  float held[2][kHeldFloats];
  size_t lines[2] = {a.in_h, a.in_h};  // which ones are held
  const auto across = [&](size_t line, size_t other) noexcept -> const float* {
    for (size_t s = 0; s < 2; ++s) {
      if (lines[s] == line) return held[s];
    }
    const size_t s = lines[0] == other ? 1 : 0;
    bilinear_across(a, image + line * a.in_w * a.channels, columns, count, held[s]);
    lines[s] = line;
    return held[s];
  };
  const size_t floats = count * a.channels;
  for (size_t row = 0; row < a.out_h; ++row, output += a.out_w * a.channels) {
    const Taps y = find_linear_taps(row, a.in_h, a.out_h, a.step_h, a.align_corners);
    const float *upper = across(y.at[0], y.at[1]), *lower = across(y.at[1], y.at[0]);
    if (a.in_h == 1 && a.out_h == 1) {
      for (size_t i = 0; i < floats; ++i) output[i] = canonical(upper[i]);
    } else {
      blend<true>(upper, y.weight[0], lower, y.weight[1], output, floats);
    }
  }
}

void resize_bilinear(const Resize2dF32& a) noexcept {
  Taps columns[kStrip];
  const size_t fitting = kHeldFloats / a.channels;
  const size_t strip = fitting == 0 ? 1 : fitting < kStrip ? fitting : kStrip;
  for (size_t first = 0; first < a.out_w; first += strip) {
    const size_t count = a.out_w - first < strip ? a.out_w - first : strip;
    for (size_t i = 0; i < count; ++i)
      columns[i] = find_linear_taps(first + i, a.in_w, a.out_w, a.step_w, a.align_corners);
    for (size_t batch = 0; batch < a.batch; ++batch) {
      const float* image = a.input + batch * a.in_h * a.in_w * a.channels;
      float* output = a.output + (batch * a.out_h * a.out_w + first) * a.channels;
      if (fitting > 0) {
        bilinear_strip(a, image, columns, count, output);
        continue;
      }
      for (size_t row = 0; row < a.out_h; ++row, output += a.out_w * a.channels) {
        bilinear_pixel(a, image, find_linear_taps(row, a.in_h, a.out_h, a.step_h, a.align_corners), columns[0], output);
      }
    }
  }
}

void bicubic_pixel(const Resize2dF32& a, const float* image, const Taps& y, const Taps& x, float* output) noexcept {
  for (size_t c = 0; c < a.channels; ++c) {
    float sum = 0.0f;
    for (int row = 0; row < 4; ++row) {
      const float* line = image + y.at[row] * a.in_w * a.channels + c;
      float across = line[x.at[0] * a.channels] * x.weight[0];
      for (int t = 1; t < 4; ++t) across = __builtin_fmaf(line[x.at[t] * a.channels], x.weight[t], across);
      sum = row == 0 ? across * y.weight[0] : __builtin_fmaf(across, y.weight[row], sum);
    }
    output[c] = canonical(sum);
  }
}

// Strips of columns, so that their taps are found once for all rows.
void resize_bicubic(const Resize2dF32& a) noexcept {
  Taps columns[kStrip];
  for (size_t first = 0; first < a.out_w; first += kStrip) {
    const size_t count = a.out_w - first < kStrip ? a.out_w - first : kStrip;
    for (size_t i = 0; i < count; ++i) columns[i] = find_cubic_taps(first + i, a.in_w, a.step_w, a.align_corners);
    for (size_t line = 0; line < a.batch * a.out_h; ++line) {
      const float* image = a.input + line / a.out_h * a.in_h * a.in_w * a.channels;
      float* output = a.output + (line * a.out_w + first) * a.channels;
      const Taps rows = find_cubic_taps(line % a.out_h, a.in_h, a.step_h, a.align_corners);
      for (size_t i = 0; i < count; ++i, output += a.channels) bicubic_pixel(a, image, rows, columns[i], output);
    }
  }
}

void resize(const Resize2dF32& a) noexcept {
  if (a.mode == ResizeMode::kNearest || a.mode == ResizeMode::kNearestExact) {
    resize_nearest(a);
  } else if (a.mode == ResizeMode::kBicubic) {
    resize_bicubic(a);
  } else {
    resize_bilinear(a);
  }
}

}  // namespace

void ALCOVE_PER_ISA(resize2d_f32)(const Resize2dF32& a) noexcept { resize(a); }

}  // namespace alcove::kernels
