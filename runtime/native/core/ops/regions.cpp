// Regions of pictures: connected_components, non_maximum_suppression.
#include <bit>
#include <cmath>

#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

constexpr uint32_t kMasks = make_set({DType::boolean, DType::u8});
constexpr uint64_t kMostPixels = 0x7FFFFFFF;
// Both passes and what is written, for each pixel; what uniting takes for each run besides the way to its root; what comparing two
// boxes takes; a candidate besides, which may sink through the whole heap.
constexpr uint64_t kCostPerPixel = 4, kCostPerRun = 16, kCostPerPair = 8, kCostPerCandidate = 64;
constexpr int64_t kBySides = 4, kByCorners = 8;
constexpr uint64_t kCorners = 4;

constexpr Integer kConnectivity{OpCode::connected_components, "connectivity"};
constexpr Real kIou{OpCode::non_maximum_suppression, "iou_threshold"},
    kScore{OpCode::non_maximum_suppression, "score_threshold"};

}  // namespace

Status check_connected_components(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "mask", {.dtypes = kMasks, .rank = 3}));
  const Tensor& in = s.input(0);
  const uint64_t height = in.dims[1], width = in.dims[2], dims[] = {in.dims[0], height, width};
  for (uint8_t i = 0; i < 2; ++i) {
    const char* const role = i == 0 ? "labels" : "areas";
    ALCOVE_TRY(check_type(s, s.op.outputs[i], role, {.dtypes = make_set({DType::i32})}));
    ALCOVE_TRY(check_shape(s, s.op.outputs[i], role, dims, 3));
  }
  ALCOVE_TRY(check_integer(s, kConnectivity, "connectivity", kBySides, kByCorners));
  const int64_t connectivity = s.integer(kConnectivity);
  if (connectivity != kBySides && connectivity != kByCorners) {
    return failure(Code::op_attribute, Section::program,
                   "connected_components: connectivity is %" PRId64 ", allowed are 4 and 8", connectivity);
  }
  if (!(Checked(height) * width).is_at_most(kMostPixels)) {
    return failure(Code::op_shape, Section::program,
                   "connected_components: a mask of %" PRIu64 " x %" PRIu64 " has more than %" PRIu64 " pixels", height,
                   width, kMostPixels)
        .in_tensor(s.op.inputs[0]);
  }
  ALCOVE_TRY(check_scratch(s, 2, kernels::connected_components_scratch_bytes<Checked>(height, width)));
  const auto runs = kernels::connected_components_runs<Checked>(height, width);
  cost = Checked(in.dims[0]) *
         (Checked(height) * width * kCostPerPixel + runs * (kCostPerRun + 2 * std::bit_width(height * width)));
  return {};
}

Status run_connected_components(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const size_t height = in.dims[1], width = in.dims[2];
  for (size_t i = 0; i < in.dims[0]; ++i) {
    c.kernels.connected_components_any({.mask = c.in<uint8_t>(0) + i * height * width,
                                        .labels = c.out<int32_t>(0) + i * height * width,
                                        .areas = c.out<int32_t>(1) + i * height * width,
                                        .scratch = c.out<uint8_t>(2),
                                        .height = height,
                                        .width = width,
                                        .by_corners = c.integer(kConnectivity) == kByCorners});
  }
  return {};
}

Status check_non_maximum_suppression(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "boxes", {.dtypes = kFloat, .rank = 3}));
  const Tensor& in = s.input(0);
  const uint64_t batch = in.dims[0], count = in.dims[1], rows[] = {batch, count};
  ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "boxes", 2, kCorners));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "scores", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.inputs[1], "scores", rows, 2));
  if (s.op.input_count > 2) {
    ALCOVE_TRY(check_type(s, s.op.inputs[2], "classes", {.dtypes = make_set({DType::i64})}));
    ALCOVE_TRY(check_shape(s, s.op.inputs[2], "classes", rows, 2));
  }
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "indices", {.dtypes = make_set({DType::i64}), .rank = 2}));
  const uint64_t most = s.output(0).dims[1], indices[] = {batch, most}, counts[] = {batch};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "indices", indices, 2));
  ALCOVE_TRY(check_type(s, s.op.outputs[1], "counts", {.dtypes = make_set({DType::i64})}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[1], "counts", counts, 1));
  if (const double iou = s.real(kIou); !(iou >= 0.0 && iou <= 1.0)) {
    return failure(Code::op_attribute, Section::program,
                   "non_maximum_suppression: iou_threshold is %g, allowed are 0 to 1", iou);
  }
  if (std::isnan(s.real(kScore))) {
    return failure(Code::op_attribute, Section::program, "non_maximum_suppression: score_threshold is not a number");
  }
  ALCOVE_TRY(check_scratch(s, 2, kernels::non_maximum_suppression_scratch_bytes<Checked>(count, most)));
  const Checked candidate = Checked(most) * kCostPerPair + kCostPerCandidate;
  if (!candidate.is_at_most(kUnstoppableOpBudget) ||
      !(Checked(count) * kCostPerCandidate).is_at_most(kUnstoppableOpBudget)) {
    return failure(Code::op_budget, Section::program,
                   "non_maximum_suppression: a candidate takes more than %" PRIu64
                   " operations, and can't be stopped within",
                   kUnstoppableOpBudget);
  }
  cost = Checked(batch) * (Checked(count) * candidate + most);
  return {};
}

Status run_non_maximum_suppression(const Call& c) noexcept {
  const size_t count = c.input(0).dims[1], most = c.output(0).dims[1];
  for (size_t i = 0; i < c.input(0).dims[0]; ++i) {
    c.kernels.non_maximum_suppression_f32({.boxes = c.in<float>(0) + i * count * kCorners,
                                           .scores = c.in<float>(1) + i * count,
                                           .classes = c.op.input_count > 2 ? c.in<int64_t>(2) + i * count : nullptr,
                                           .indices = c.out<int64_t>(0) + i * most,
                                           .kept = c.out<int64_t>(1) + i,
                                           .scratch = c.out<uint8_t>(2),
                                           .count = count,
                                           .most = most,
                                           .overlap = c.real(kIou),
                                           .score = c.real(kScore),
                                           .is_cancelled = watched_flag()});
  }
  return {};
}

}  // namespace alcove::ops
