// conv2d_i8 for any instruction set: it copies, `linear` computes.
#include "kernels/operators/conv2d_i8/conv2d_i8.h"

#include <cstring>

#include "kernels/copy_run.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

constexpr size_t kShort = 16;

// One kernel row of a patch that looks beyond the input's line on the left or right, or whose columns are apart.
void gather_columns(const Conv2dI8& a, const int8_t* line, int64_t left, int8_t* patch) noexcept {
  const size_t channels = a.groups * a.in_c;
  for (size_t j = 0; j < a.kernel_w; ++j, patch += a.in_c) {
    const int64_t column = left + static_cast<int64_t>(j * a.dilation_w);
    if (column < 0 || column >= static_cast<int64_t>(a.in_w)) {
      std::memset(patch, a.input_zero_point, a.in_c);
    } else {
      copy_run(patch, line + static_cast<size_t>(column) * channels, a.in_c);
    }
  }
}

// Up to `count` patches of neighbours in a row that are inside the image and whose kernel rows are short: each is copied as 16
// bytes, of which what is too much is overwritten by what follows.  Returns how many were made: fewer, where there are not as
// many bytes to read or to write.
size_t gather_short(const Conv2dI8& a, const int8_t* from, const int8_t* end, int8_t* to, const int8_t* scratch_end,
                    size_t count) noexcept {
  const size_t taps = a.kernel_h, row_bytes = a.kernel_w * a.in_c,
               patch_bytes = conv2d_i8_patch_bytes(taps * row_bytes);
  const size_t line_bytes = a.dilation_h * a.in_w * a.in_c, step = a.stride_w * a.in_c;
  const auto reach = static_cast<ptrdiff_t>((taps - 1) * line_bytes + kShort);
  const auto room = static_cast<ptrdiff_t>(taps * row_bytes + kShort);
  size_t made = 0;
  for (; made < count && end - from >= reach && scratch_end - to >= room; ++made, from += step, to += patch_bytes) {
    const int8_t* line = from;
    int8_t* row = to;
    for (size_t tap = taps; tap > 0; --tap, line += line_bytes, row += row_bytes) std::memcpy(row, line, kShort);
    std::memset(row, 0, 4);  // to a whole group
  }
  return made;
}

void gather(const Conv2dI8& a, size_t first, size_t count, size_t group) noexcept {
  const size_t channels = a.groups * a.in_c;
  const size_t line_bytes = a.in_w * channels, patch_row = a.kernel_w * a.in_c;
  const size_t patch_bytes = conv2d_i8_patch_bytes(a.kernel_h * patch_row);
  const bool is_side_by_side = a.groups == 1 && a.dilation_w == 1;
  const auto height = static_cast<int64_t>(a.in_h), width = static_cast<int64_t>(a.in_w);
  const bool is_short = is_side_by_side && patch_row <= kShort;
  const int8_t* const scratch_end = a.scratch + count * patch_bytes;
  const int8_t* const end = a.input + a.batch * a.in_h * line_bytes;
  const auto rows = static_cast<int64_t>((a.kernel_h - 1) * a.dilation_h);
  size_t batch = first / (a.out_w * a.out_h), row = first / a.out_w % a.out_h, column = first % a.out_w;
  int8_t* patch = a.scratch;
  for (size_t i = 0; i < count;) {
    const int64_t top = static_cast<int64_t>(row * a.stride_h) - static_cast<int64_t>(a.pad_top);
    const int64_t left = static_cast<int64_t>(column * a.stride_w) - static_cast<int64_t>(a.pad_left);
    const int64_t beside = width - static_cast<int64_t>(a.kernel_w) - left;  // columns on the right of the kernel
    const bool is_inside = is_side_by_side && left >= 0 && beside >= 0;
    const int8_t* image = a.input + batch * a.in_h * line_bytes + group * a.in_c;
    size_t made = 0;
    if (is_short && is_inside && top >= 0 && top + rows < height) {
      const int8_t* from = image + static_cast<size_t>(top) * line_bytes + static_cast<size_t>(left) * channels;
      const size_t inside = static_cast<size_t>(beside) / a.stride_w + 1, in_row = a.out_w - column;
      const size_t most = inside < in_row ? inside : in_row;
      made = gather_short(a, from, end, patch, scratch_end, most < count - i ? most : count - i);
    }
    if (made == 0) {
      int8_t* to = patch;
      for (size_t tap = 0; tap < a.kernel_h; ++tap, to += patch_row) {
        const int64_t at = top + static_cast<int64_t>(tap * a.dilation_h);
        const bool is_line = at >= 0 && at < height;
        const int8_t* line = is_line ? image + static_cast<size_t>(at) * line_bytes : image;
        if (!is_line) {
          std::memset(to, a.input_zero_point, patch_row);
        } else if (is_inside) {
          copy_run(to, line + static_cast<size_t>(left) * channels, patch_row);
        } else {
          gather_columns(a, line, left, to);
        }
      }
      // Their weights are 0; whole groups of 4 are what `linear` is fastest at.
      for (; to < patch + patch_bytes; ++to) *to = 0;
      made = 1;
    }
    i += made;
    patch += made * patch_bytes;
    column += made;
    if (column == a.out_w) {
      column = 0;
      if (++row == a.out_h) {
        row = 0;
        ++batch;
      }
    }
  }
}

}  // namespace

void conv2d_i8_scalar(const Conv2dI8& a) noexcept {
  const size_t patch = a.kernel_h * a.kernel_w * a.in_c;
  const size_t patch_bytes = conv2d_i8_patch_bytes(patch);
  const size_t pixels = a.batch * a.out_h * a.out_w;
  const size_t channels = a.groups * a.out_c;
  const size_t group_bytes = (a.out_c + 15) / 16 * panel_bytes_i8(patch);
  const bool reads_in_place = a.kernel_h == 1 && a.kernel_w == 1 && a.groups == 1 && a.stride_h == 1 &&
                              a.stride_w == 1 && a.pad_top == 0 && a.pad_left == 0 && a.out_h == a.in_h &&
                              a.out_w == a.in_w;
  const size_t block = reads_in_place ? pixels : kConv2dI8Block;
  for (size_t first = 0; first < pixels; first += block) {
    const size_t count = pixels - first < block ? pixels - first : block;
    for (size_t group = 0; group < a.groups; ++group) {
      if (!reads_in_place) gather(a, first, count, group);
      const int8_t* input = reads_in_place ? a.input : a.scratch;
      int8_t* output = a.output + first * channels + group * a.out_c;
      const size_t k = reads_in_place ? patch : patch_bytes;
      a.linear({input, k, a.panels + group * group_bytes, output, channels, nullptr, count, a.out_c, k, a.zero_point,
                a.low, a.high});
    }
  }
}

}  // namespace alcove::kernels
