// The only separable_conv2d: it walks down the image, `linear` and `depthwise_conv2d` compute.
#include "kernels/operators/separable_conv2d/separable_conv2d.h"

#include <cstring>

namespace alcove::kernels {

namespace {

// Lines [first, end) of an image.
struct Lines {
  size_t first, end;
};

// The lines inside the image that output rows [row, row + count) look at.
Lines below(const SeparableConv2dF32& a, size_t row, size_t count) noexcept {
  const size_t top = row * a.stride_h, bottom = (row + count - 1) * a.stride_h + a.kernel_h;
  const size_t first = top < a.pad_top ? 0 : top - a.pad_top;
  const size_t end = bottom - a.pad_top;
  return {first, end < a.in_h ? end : a.in_h};
}

// Lines [from, to) of the image, expanded.
void expand(const SeparableConv2dF32& a, const float* image, size_t from, size_t to, float* lines) noexcept {
  LinearF32 args{};
  args.input = image + from * a.in_w * a.in_c;
  args.panels = a.expand;
  args.output = lines;
  args.m = (to - from) * a.in_w;
  args.n = a.channels;
  args.k = a.in_c;
  args.activation = a.after_expand;
  a.linear(args);
}

void convolve_rows(const SeparableConv2dF32& a, const float* lines, const Lines& held, size_t row, size_t count,
                   float* out) noexcept {
  DepthwiseConv2dF32 args{};
  args.input = lines;
  args.weights = a.depthwise;
  args.output = out;
  args.batch = 1;
  args.in_h = held.end - held.first;
  args.in_w = a.in_w;
  args.channels = a.channels;
  args.multiplier = 1;
  args.out_h = count;
  args.out_w = a.out_w;
  args.kernel_h = a.kernel_h;
  args.kernel_w = a.kernel_w;
  args.stride_h = a.stride_h;
  args.stride_w = a.stride_w;
  args.pad_top = held.first + a.pad_top - row * a.stride_h;
  args.pad_left = a.pad_left;
  args.dilation_h = args.dilation_w = 1;
  args.activation = a.after_depthwise;
  a.depthwise_conv2d(args);
}

void project(const SeparableConv2dF32& a, const float* rows, size_t count, size_t pixel) noexcept {
  LinearF32 args{};
  args.input = rows;
  args.panels = a.project;
  args.output = a.output + pixel * a.out_c;
  args.m = count * a.out_w;
  args.n = a.out_c;
  args.k = a.channels;
  args.residual = a.residual != nullptr ? a.residual + pixel * a.out_c : nullptr;
  args.activation = a.activation;
  a.linear(args);
}

}  // namespace

void separable_conv2d_f32_scalar(const SeparableConv2dF32& a) noexcept {
  const size_t line_floats = a.in_w * a.channels;
  const size_t most = a.expand != nullptr ? separable_lines(a.rows, a.kernel_h, a.stride_h) : 0;
  float* const depthwise_rows = a.scratch + most * line_floats;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    const float* image = a.input + batch * a.in_h * a.in_w * a.in_c;
    Lines held = {0, 0};  // what scratch has of e
    for (size_t row = 0; row < a.out_h; row += a.rows) {
      const size_t count = a.out_h - row < a.rows ? a.out_h - row : a.rows;
      const Lines needed = below(a, row, count);
      const float* lines = image + needed.first * line_floats;
      if (a.expand != nullptr) {
        // Lines that the rows before have looked at move to the front.
        const size_t kept = held.end > needed.first ? held.end - needed.first : 0;
        if (kept > 0)
          std::memmove(a.scratch, a.scratch + (needed.first - held.first) * line_floats,
                       kept * line_floats * sizeof(float));
        const size_t next = needed.first + kept;
        if (next < needed.end) expand(a, image, next, needed.end, a.scratch + kept * line_floats);
        lines = a.scratch;
      }
      held = needed;
      convolve_rows(a, lines, needed, row, count, depthwise_rows);
      project(a, depthwise_rows, count, (batch * a.out_h + row) * a.out_w);
    }
  }
}

}  // namespace alcove::kernels
