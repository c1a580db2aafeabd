// The only conv2d: it finds the pixels, `linear` computes.
#include "kernels/operators/conv2d/conv2d.h"

#include <cstdint>
#include <cstring>

#include "kernels/copy_run.h"
namespace alcove::kernels {

namespace {

// Fewer pixels than this are better gathered: tiles of few rows leave `linear` waiting.
constexpr size_t kFewestInPlace = 6;
constexpr size_t kFewestNarrow = 16;
// Taps with fewer inputs, apart from each other, are better gathered: going from one to the next takes longer.
constexpr size_t kFewestOfTap = 4;

// Every step-th output pixel, `count` of them: neighbours in rows (1) or in a column (out_w).
struct Pixels {
  size_t first, count, step;
};

// Output columns [first, end) look at no column outside the input; likewise for rows.
struct Inside {
  size_t first, end;
};

Inside inside(size_t out, size_t in, size_t kernel, size_t stride, size_t pad, size_t dilation) noexcept {
  const size_t first = (pad + stride - 1) / stride;
  const size_t reach = (kernel - 1) * dilation + 1;
  const size_t end = in + pad < reach ? 0 : (in + pad - reach) / stride + 1;
  const size_t last = end < out ? end : out;
  return first < last ? Inside{first, last} : Inside{out, out};
}

int64_t origin(size_t output, size_t stride, size_t pad) noexcept {
  return static_cast<int64_t>(output * stride) - static_cast<int64_t>(pad);
}

// One kernel row of a patch: kernel_w * in_c floats.  `line` is the input's row, null outside the input.
void gather_row(const Conv2dF32& a, const float* line, int64_t left, size_t group, float* patch) noexcept {
  if (line == nullptr) {
    std::memset(patch, 0, a.kernel_w * a.in_c * sizeof(float));
    return;
  }
  const size_t channels = a.groups * a.in_c;
  const int64_t width = static_cast<int64_t>(a.in_w);
  if (a.groups == 1 && a.dilation_w == 1) {
    // Taps [first, end) are inside the input, side by side.
    const auto taps = static_cast<int64_t>(a.kernel_w);
    const int64_t first = left >= 0 ? 0 : -left < taps ? -left : taps;
    const int64_t most = width - left < taps ? width - left : taps, end = most > first ? most : first;
    const size_t before = static_cast<size_t>(first) * channels, inside = static_cast<size_t>(end - first) * channels;
    for (size_t i = 0; i < before; ++i) patch[i] = 0.0f;
    if (inside > 0)
      copy_run(patch + before, line + (left + first) * static_cast<int64_t>(channels), inside * sizeof(float));
    for (size_t i = before + inside; i < a.kernel_w * channels; ++i) patch[i] = 0.0f;
    return;
  }
  for (size_t tap = 0; tap < a.kernel_w; ++tap, patch += a.in_c) {
    const int64_t column = left + static_cast<int64_t>(tap * a.dilation_w);
    if (column < 0 || column >= width) {
      std::memset(patch, 0, a.in_c * sizeof(float));
    } else {
      copy_run(patch, line + static_cast<size_t>(column) * channels + group * a.in_c, a.in_c * sizeof(float));
    }
  }
}

void gather(const Conv2dF32& a, const Pixels& pixels, size_t group) noexcept {
  const size_t patch_row = a.kernel_w * a.in_c;
  const size_t line_floats = a.in_w * a.groups * a.in_c;
  float* patch = a.scratch;
  for (size_t i = 0; i < pixels.count; ++i) {
    const size_t pixel = pixels.first + i * pixels.step;
    const size_t batch = pixel / (a.out_w * a.out_h);
    const int64_t top = origin(pixel / a.out_w % a.out_h, a.stride_h, a.pad_top);
    const int64_t left = origin(pixel % a.out_w, a.stride_w, a.pad_left);
    for (size_t tap = 0; tap < a.kernel_h; ++tap, patch += patch_row) {
      const int64_t row = top + static_cast<int64_t>(tap * a.dilation_h);
      const bool is_inside = row >= 0 && row < static_cast<int64_t>(a.in_h);
      const float* line = is_inside ? a.input + (batch * a.in_h + static_cast<size_t>(row)) * line_floats : nullptr;
      gather_row(a, line, left, group, patch);
    }
  }
}

// The product of some pixels with the weights of one group.
LinearF32 make_gemm(const Conv2dF32& a, const Pixels& pixels, size_t group) noexcept {
  const size_t channels = a.groups * a.out_c;
  const size_t patch = a.kernel_h * a.kernel_w * a.in_c;
  const size_t at = pixels.first * channels + group * a.out_c;
  LinearF32 args{};
  args.input = a.scratch;
  args.panels = a.panels + group * panel_floats((a.out_c + 15) / 16, patch);
  args.output = a.output + at;
  args.m = pixels.count;
  args.n = a.out_c;
  args.k = patch;
  args.residual = a.residual != nullptr ? a.residual + at : nullptr;
  args.output_stride = pixels.step * channels;
  args.activation = a.activation;
  return args;
}

// Whether a kernel row is one piece of the input.
bool is_side_by_side(const Conv2dF32& a) noexcept { return a.kernel_w == 1 || (a.groups == 1 && a.dilation_w == 1); }

void convolve_gathered(const Conv2dF32& a, const Pixels& pixels) noexcept {
  const size_t patch = a.kernel_h * a.kernel_w * a.in_c, least = conv2d_block_pixels(patch);
  const size_t fitting = a.scratch_bytes / (patch * sizeof(float));
  const size_t block = fitting > kMostPatches ? kMostPatches : fitting > least ? fitting : least;
  for (size_t done = 0; done < pixels.count; done += block) {
    const size_t count = pixels.count - done < block ? pixels.count - done : block;
    for (size_t group = 0; group < a.groups; ++group) {
      const Pixels here = {pixels.first + done * pixels.step, count, pixels.step};
      gather(a, here, group);
      a.linear(make_gemm(a, here, group));
    }
  }
}

// Neighbours of one row; `input` is where the first of them looks.
void convolve_in_place(const Conv2dF32& a, const Pixels& pixels, const float* input) noexcept {
  const size_t channels = a.groups * a.in_c;
  for (size_t group = 0; group < a.groups; ++group) {
    LinearF32 args = make_gemm(a, pixels, group);
    args.input = input + group * a.in_c;
    args.input_stride = a.stride_w * channels;
    args.runs = a.kernel_h;
    args.row_stride = a.dilation_h * a.in_w * channels;
    if (!is_side_by_side(a)) {
      args.runs *= args.row_runs = a.kernel_w;
      args.run_stride = a.dilation_w * channels;
    }
    a.linear(args);
  }
}

Conv2dSizes measure_sizes(const Conv2dF32& a) noexcept {
  return {a.in_c, a.out_w, a.out_c, a.groups, a.kernel_h, a.kernel_w, a.stride_w, a.dilation_h, a.dilation_w};
}

// A line of the input as planes of so many floats, zeros left and right of it.
void spread(const Conv2dF32& a, const float* line, size_t plane, float* planes) noexcept {
  const size_t left = a.pad_left < plane ? a.pad_left : plane;
  const size_t end = left + a.in_w < plane ? left + a.in_w : plane;
  for (size_t c = 0; c < a.in_c; ++c, planes += plane) {
    const float* x = line + c;
    for (size_t i = 0; i < left; ++i) planes[i] = 0.0f;
    for (size_t i = left; i < end; ++i, x += a.in_c) planes[i] = *x;
    for (size_t i = end; i < plane; ++i) planes[i] = 0.0f;
  }
}

void convolve_narrow(const Conv2dF32& a) noexcept {
  const size_t plane = conv2d_plane_floats(measure_sizes(a));
  const size_t line_planes = a.in_c * plane;
  float* const zeros = a.scratch + a.kernel_h * line_planes;
  // Distances and no addresses: whatever reads scratch sees the same in every run.
  auto* const planes = reinterpret_cast<size_t*>(zeros + plane);
  std::memset(zeros, 0, plane * sizeof(float));
  const size_t line_floats = a.in_w * a.in_c;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    size_t next = 0;  // the first line that is not spread yet; line i lies at i % kernel_h
    for (size_t row = 0; row < a.out_h; ++row) {
      const int64_t top = origin(row, a.stride_h, a.pad_top);
      for (size_t tap = 0; tap < a.kernel_h; ++tap) {
        const int64_t at = top + static_cast<int64_t>(tap);
        const bool is_inside = at >= 0 && at < static_cast<int64_t>(a.in_h);
        const auto line = static_cast<size_t>(is_inside ? at : 0);
        float* const spread_line = a.scratch + line % a.kernel_h * line_planes;
        if (is_inside && line >= next) {
          spread(a, a.input + (batch * a.in_h + line) * line_floats, plane, spread_line);
          next = line + 1;
        }
        const auto first = static_cast<size_t>((is_inside ? spread_line : zeros) - a.scratch);
        for (size_t c = 0; c < a.in_c; ++c) planes[tap * a.in_c + c] = first + (is_inside ? c * plane : 0);
      }
      const size_t first = (batch * a.out_h + row) * a.out_w * a.out_c;
      a.narrow({a.scratch, planes, a.panels, a.residual != nullptr ? a.residual + first : nullptr, a.output + first,
                a.out_w, a.in_c, a.out_c, a.kernel_h, a.kernel_w, a.activation});
    }
  }
}

void convolve_groups(const Conv2dF32& a) noexcept {
  const size_t channels = a.groups * a.in_c, line_floats = a.out_w * channels;
  Conv2dGroupsRow row{};
  row.weights = a.panels;
  row.in_h = a.in_h;
  row.in_w = a.in_w;
  row.out_w = a.out_w;
  row.channels = channels;
  row.width = a.in_c;
  row.kernel_h = a.kernel_h;
  row.kernel_w = a.kernel_w;
  row.stride_w = a.stride_w;
  row.pad_left = a.pad_left;
  row.dilation_h = a.dilation_h;
  row.dilation_w = a.dilation_w;
  row.activation = a.activation;
  for (size_t i = 0; i < a.batch * a.out_h; ++i) {
    row.input = a.input + i / a.out_h * a.in_h * a.in_w * channels;
    row.residual = a.residual != nullptr ? a.residual + i * line_floats : nullptr;
    row.output = a.output + i * line_floats;
    row.top = origin(i % a.out_h, a.stride_h, a.pad_top);
    a.of_groups(row);
  }
}

}  // namespace

void conv2d_f32_scalar(const Conv2dF32& a) noexcept {
  if (a.of_groups != nullptr) return convolve_groups(a);
  if (a.out_w >= kFewestNarrow && conv2d_is_narrow(measure_sizes(a))) return convolve_narrow(a);
  const size_t pixels = a.batch * a.out_h * a.out_w;
  const bool is_pointwise = a.kernel_h == 1 && a.kernel_w == 1 && a.pad_top == 0 && a.pad_left == 0;
  if (is_pointwise && a.stride_h == 1 && a.stride_w == 1 && a.out_h == a.in_h && a.out_w == a.in_w) {
    return convolve_in_place(a, {0, pixels, 1}, a.input);
  }
  const Inside rows = inside(a.out_h, a.in_h, a.kernel_h, a.stride_h, a.pad_top, a.dilation_h);
  const Inside columns = inside(a.out_w, a.in_w, a.kernel_w, a.stride_w, a.pad_left, a.dilation_w);
  const bool is_long_enough = is_side_by_side(a) || a.in_c >= kFewestOfTap;
  if (!is_long_enough || rows.first == rows.end || columns.end - columns.first < kFewestInPlace) {
    return convolve_gathered(a, {0, pixels, 1});
  }
  const size_t channels = a.groups * a.in_c;
  for (size_t batch = 0; batch < a.batch; ++batch) {
    const size_t image = batch * a.out_h * a.out_w;
    const size_t above = rows.first * a.out_w, below = rows.end * a.out_w;
    if (rows.first > 0) convolve_gathered(a, {image, above, 1});
    if (rows.end < a.out_h) convolve_gathered(a, {image + below, a.out_h * a.out_w - below, 1});
    for (size_t column = 0; column < a.out_w; ++column) {
      if (column < columns.first || column >= columns.end) {
        convolve_gathered(a, {image + above + column, rows.end - rows.first, a.out_w});
      }
    }
    for (size_t row = rows.first; row < rows.end; ++row) {
      const auto top = static_cast<size_t>(origin(row, a.stride_h, a.pad_top));
      const auto left = static_cast<size_t>(origin(columns.first, a.stride_w, a.pad_left));
      convolve_in_place(a, {image + row * a.out_w + columns.first, columns.end - columns.first, 1},
                        a.input + ((batch * a.in_h + top) * a.in_w + left) * channels);
    }
  }
}

}  // namespace alcove::kernels
