// Images and volumes at other points: resize2d, grid_sample, grid_sample3d; two images mixed by a resized one: composite.
#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

// What finding taps and weights of one point costs, and the multiply-adds of the widest stencil.
constexpr uint64_t kCostPerPoint = 64, kCostPerElement = 20, kCostPerVoxelPoint = 64, kCostPerMix = 4;

Status check_images(const Subject& s) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 4}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat, .rank = 4}));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, s.input(0).dims[0]));
  return check_dimension(s, s.op.outputs[0], "output", 3, s.input(0).dims[3]);
}

Checked point_cost(const Tensor& out) {
  return Checked(out.dims[0]) * out.dims[1] * out.dims[2] * (Checked(out.dims[3]) * kCostPerElement + kCostPerPoint);
}

constexpr Integer kMode{{OpCode::resize2d, OpCode::grid_sample}, "mode"};
constexpr Integer kResizeAlign{OpCode::resize2d, "align_corners"}, kGridAlign{OpCode::grid_sample, "align_corners"};
constexpr Real kScaleH{OpCode::resize2d, "scale_h"}, kScaleW{OpCode::resize2d, "scale_w"};
constexpr Integer kChannelsLast{OpCode::composite, "is_channels_last"}, kResized{OpCode::composite, "is_resized"},
    kMatteAlign{OpCode::composite, "align_corners"};
constexpr Real kMatteScaleH{OpCode::composite, "scale_h"}, kMatteScaleW{OpCode::composite, "scale_w"};
constexpr Integer kPadding{OpCode::grid_sample, "padding"};
constexpr Integer kVolumeMode{OpCode::grid_sample3d, "mode"}, kVolumePadding{OpCode::grid_sample3d, "padding"},
    kVolumeAlign{OpCode::grid_sample3d, "align_corners"};
// A scale and its inverse are far from the ends of float32.
constexpr double kLeastScale = 1e-12, kMostScale = 1e12;

Status check_scales(const Subject& s, Real height, Real width) {
  for (const double scale : {s.real(height), s.real(width)}) {
    if (scale == 0.0 || (scale >= kLeastScale && scale <= kMostScale)) continue;
    return failure(Code::op_attribute, Section::program, "%s: a scale is 0 or between %g and %g", s.name(), kLeastScale,
                   kMostScale);
  }
  return {};
}

}  // namespace

Status check_resize2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s));
  ALCOVE_TRY(check_integer(s, kMode, "mode", 0, 3));
  const bool is_nearest = s.integer(kMode) < static_cast<int64_t>(kernels::ResizeMode::kBilinear);
  ALCOVE_TRY(check_integer(s, kResizeAlign, "align_corners", 0, is_nearest ? 0 : 1));
  ALCOVE_TRY(check_scales(s, kScaleH, kScaleW));
  cost = point_cost(s.output(0));
  return {};
}

Status run_resize2d(const Call& c) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  const bool align_corners = c.integer(kResizeAlign) == 1;
  c.kernels.resize2d_f32({c.in<float>(0), c.out<float>(0), in.dims[0], in.dims[1], in.dims[2], in.dims[3], out.dims[1],
                          out.dims[2], static_cast<kernels::ResizeMode>(c.integer(kMode)), align_corners,
                          kernels::resize2d_step(in.dims[1], out.dims[1], align_corners, c.real(kScaleH)),
                          kernels::resize2d_step(in.dims[2], out.dims[2], align_corners, c.real(kScaleW))});
  return {};
}

Status check_composite(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "background", {.dtypes = kFloat, .rank = 4}));
  ALCOVE_TRY(check_like_input(s));
  const Tensor &in = s.input(0), &out = s.output(0);
  const uint64_t image[] = {in.dims[0], in.dims[1], in.dims[2], in.dims[3]};
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "frame", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.inputs[1], "frame", image, 4));
  ALCOVE_TRY(check_integer(s, kChannelsLast, "is_channels_last", 0, 1));
  ALCOVE_TRY(check_integer(s, kResized, "is_resized", 0, 1));
  const bool is_last = s.integer(kChannelsLast) == 1, is_resized = s.integer(kResized) == 1;
  ALCOVE_TRY(check_integer(s, kMatteAlign, "align_corners", 0, is_resized ? 1 : 0));
  ALCOVE_TRY(check_scales(s, kMatteScaleH, kMatteScaleW));
  ALCOVE_TRY(check_type(s, s.op.inputs[2], "alpha", {.dtypes = kFloat, .rank = 4}));
  const uint8_t channel = is_last ? 3 : 1, row = is_last ? 1 : 2;
  ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "alpha", 0, in.dims[0]));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "alpha", channel, 1));
  if (!is_resized) {
    for (const uint8_t side : {row, static_cast<uint8_t>(row + 1)}) {
      ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "alpha", side, in.dims[side]));
    }
  }
  cost = elements(out) * kCostPerMix + Checked(in.dims[0]) * in.dims[row] * in.dims[row + 1] * kCostPerPoint;
  return {};
}

Status run_composite(const Call& c) noexcept {
  const Tensor &in = c.input(0), &alpha = c.input(2);
  const bool is_last = c.integer(kChannelsLast) == 1, align_corners = c.integer(kMatteAlign) == 1;
  const uint8_t channel = is_last ? 3 : 1, row = is_last ? 1 : 2;
  const size_t height = in.dims[row], width = in.dims[row + 1];
  c.kernels.composite_f32(
      {.back = c.in<float>(0),
       .front = c.in<float>(1),
       .matte = c.in<float>(2),
       .output = c.out<float>(0),
       .batch = in.dims[0],
       .channels = in.dims[channel],
       .height = height,
       .width = width,
       .matte_h = alpha.dims[row],
       .matte_w = alpha.dims[row + 1],
       .is_channels_last = is_last,
       .is_resized = c.integer(kResized) == 1,
       .align_corners = align_corners,
       .step_h = kernels::resize2d_step(alpha.dims[row], height, align_corners, c.real(kMatteScaleH)),
       .step_w = kernels::resize2d_step(alpha.dims[row + 1], width, align_corners, c.real(kMatteScaleW))});
  return {};
}

Status check_grid_sample(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_images(s));
  const Tensor& out = s.output(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "grid", {.dtypes = kFloat}));
  const uint64_t dims[4] = {out.dims[0], out.dims[1], out.dims[2], 2};
  ALCOVE_TRY(check_shape(s, s.op.inputs[1], "grid", dims, 4));
  ALCOVE_TRY(check_integer(s, kMode, "mode", 0, 2));
  ALCOVE_TRY(check_integer(s, kPadding, "padding", 0, 2));
  ALCOVE_TRY(check_integer(s, kGridAlign, "align_corners", 0, 1));
  cost = point_cost(out);
  return {};
}

Status run_grid_sample(const Call& c) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  c.kernels.grid_sample_f32({c.in<float>(0), c.in<float>(1), c.out<float>(0), in.dims[0], in.dims[1], in.dims[2],
                             in.dims[3], out.dims[1], out.dims[2], static_cast<kernels::GridMode>(c.integer(kMode)),
                             static_cast<kernels::GridPadding>(c.integer(kPadding)), c.integer(kGridAlign) == 1});
  return {};
}

Status check_grid_sample3d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 5}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat, .rank = 5}));
  const Tensor &in = s.input(0), &out = s.output(0);
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, in.dims[0]));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 4, in.dims[4]));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "grid", {.dtypes = kFloat}));
  const uint64_t dims[5] = {out.dims[0], out.dims[1], out.dims[2], out.dims[3], 3};
  ALCOVE_TRY(check_shape(s, s.op.inputs[1], "grid", dims, 5));
  ALCOVE_TRY(check_integer(s, kVolumeMode, "mode", 0, 1));
  ALCOVE_TRY(check_integer(s, kVolumePadding, "padding", 0, 2));
  ALCOVE_TRY(check_integer(s, kVolumeAlign, "align_corners", 0, 1));
  cost = Checked(out.dims[0]) * out.dims[1] * out.dims[2] * out.dims[3] *
         (Checked(out.dims[4]) * kCostPerElement + kCostPerVoxelPoint);
  return {};
}

Status run_grid_sample3d(const Call& c) noexcept {
  const Tensor &in = c.input(0), &out = c.output(0);
  const size_t points = static_cast<size_t>(out.dims[1]) * out.dims[2] * out.dims[3];
  c.kernels.grid_sample3d_f32({c.in<float>(0), c.in<float>(1), c.out<float>(0), in.dims[0], in.dims[1], in.dims[2],
                               in.dims[3], in.dims[4], points, static_cast<kernels::GridMode>(c.integer(kVolumeMode)),
                               static_cast<kernels::GridPadding>(c.integer(kVolumePadding)),
                               c.integer(kVolumeAlign) == 1});
  return {};
}

}  // namespace alcove::ops
