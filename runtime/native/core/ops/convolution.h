// What the rules of convolutions and their kernels' arguments share.
#pragma once

#include "core/ops/ops.h"

namespace alcove::ops {

// Kernels, strides, dilations and paddings beyond this make no sense, and their products stay far from 2^64.
inline constexpr int64_t kMostExtent = 1 << 20;

// A tap of a depthwise convolution costs as much as so many multiply-adds of a dense product.
inline constexpr uint64_t kDepthwiseWork = 4;

inline Status check_pair(const Subject& s, Integers sizes, const char* role, int64_t low) {
  ALCOVE_TRY(check_integer(s, sizes[0], role, low, kMostExtent));
  return check_integer(s, sizes[1], role, low, kMostExtent);
}

inline Status check_image(const Subject& s, uint32_t index, const char* role) {
  return check_type(s, index, role, {.dtypes = kFloat, .rank = 4});
}

// What follows from input size, paddings, kernel, stride and dilation of one dimension; 0 if the kernel does not fit.
inline uint64_t find_convolution_size(uint64_t in, int64_t before, int64_t after, int64_t kernel, int64_t stride,
                                      int64_t dilation) {
  const int64_t room = static_cast<int64_t>(in) + before + after - (kernel - 1) * dilation - 1;
  return room < 0 ? 0 : static_cast<uint64_t>(room / stride) + 1;
}

template <typename Args>
void set_images(const Call& c, Args& args) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  args.input = c.in<float>(0);
  args.output = c.out<float>(0);
  args.batch = in.dims[0];
  args.in_h = in.dims[1];
  args.in_w = in.dims[2];
  args.out_h = out.dims[1];
  args.out_w = out.dims[2];
}

// Whether the last input is added to the output, and that there is one: `others` come before it.
inline Status check_residual(const Subject& s, Integer attribute, uint32_t others) {
  ALCOVE_TRY(check_integer(s, attribute, "has_residual", 0, 1));
  ALCOVE_TRY(check_input_count(s, others + static_cast<uint32_t>(s.integer(attribute))));
  if (s.integer(attribute) == 0) return {};
  const Tensor& out = s.output(0);
  const uint64_t dims[4] = {out.dims[0], out.dims[1], out.dims[2], out.dims[3]};
  ALCOVE_TRY(check_type(s, s.op.inputs[others], "residual", {.dtypes = kFloat}));
  return check_shape(s, s.op.inputs[others], "residual", dims, 4);
}

}  // namespace alcove::ops
