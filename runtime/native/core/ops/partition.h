// Splits a convolution among threads into parts of its output lines: each is a convolution of its own, with fewer lines of the
// input and another padding above, so that kernels know nothing of it.  Images of one line are shared out by columns.
#pragma once

#include "core/ops/ops.h"

namespace alcove::ops {

// Of a window along one dimension: `reach` is how many inputs lie from its first to its last.
struct Slide {
  size_t stride, reach;
};

// A batch of images, or a part of one: what it is of the whole, and what a kernel is told.
struct Partition {
  size_t batch, in_h, in_w, out_h, out_w, pad_top, pad_left;
  size_t input = 0, output = 0;  // elements before it
};

using PartitionRun = void(const void* context, const Partition& partition, size_t part) noexcept;

// See below; a call of run for each partition.
void partition_images(const Call& c, const Partition& all, const Slide& rows, const Slide& columns, size_t tile,
                      uint64_t work, PartitionRun* run, const void* context) noexcept;

// Calls run(args, part) for partitions that together make the output: lines of it in groups of `tile`, which stay whole.  `work` as for
// Call::parts.  Args: batch, in_h, in_w, out_h, out_w, pad_top, pad_left, input, output, and residual if it has one.
template <typename Args, typename Run>
void partition_images(const Call& c, const Args& args, const Slide& rows, const Slide& columns, size_t tile,
                      uint64_t work, const Run& run) noexcept {
  if (c.pool == nullptr && work <= kPollWork) return run(args, 0);
  struct Context {
    const Args& args;
    const Run& run;
  };
  const Context context = {args, run};
  const Partition all = {args.batch, args.in_h, args.in_w, args.out_h, args.out_w, args.pad_top, args.pad_left};
  partition_images(
      c, all, rows, columns, tile, work,
      [](const void* pointer, const Partition& partition, size_t part) noexcept {
        const Context& whole = *static_cast<const Context*>(pointer);
        Args some = whole.args;
        some.input += partition.input;
        some.output += partition.output;
        if constexpr (requires { some.residual; }) {
          if (some.residual != nullptr) some.residual += partition.output;
        }
        some.batch = partition.batch;
        some.in_h = partition.in_h;
        some.in_w = partition.in_w;
        some.out_h = partition.out_h;
        some.out_w = partition.out_w;
        some.pad_top = partition.pad_top;
        some.pad_left = partition.pad_left;
        whole.run(some, part);
      },
      &context);
}

// Of a convolution with kernel, stride and dilation.
template <typename Args>
Slide make_row_slide(const Args& a) noexcept {
  return {a.stride_h, (a.kernel_h - 1) * a.dilation_h + 1};
}
template <typename Args>
Slide make_column_slide(const Args& a) noexcept {
  return {a.stride_w, (a.kernel_w - 1) * a.dilation_w + 1};
}

// Whether each output pixel is the product of one input pixel: then all pixels become one column of an image, which can be shared
// out wherever one likes.
template <typename Args>
bool make_column(Args& a) noexcept {
  const bool is_pointwise = a.kernel_h == 1 && a.kernel_w == 1 && a.stride_h == 1 && a.stride_w == 1 &&
                            a.pad_top == 0 && a.pad_left == 0 && a.in_h == a.out_h && a.in_w == a.out_w;
  if (!is_pointwise) return false;
  a.in_h = a.out_h = a.batch * a.out_h * a.out_w;
  a.in_w = a.out_w = a.batch = 1;
  return true;
}

}  // namespace alcove::ops
