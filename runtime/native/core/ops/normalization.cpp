// Rows and groups brought to one scale: softmax, layer_norm, group_norm.
#include <limits>

#include "core/ops/movement.h"

namespace alcove::ops {

namespace {

constexpr int64_t kWeight = 1, kBias = 2;  // bits of has_mask
constexpr Integer kIsLog{OpCode::softmax, "is_log"};
constexpr OpCode kLayer = OpCode::layer_norm, kGroup = OpCode::group_norm;
constexpr Integer kIsRms{kLayer, "is_rms"}, kAxisCount{kLayer, "axis_count"}, kLayerMask{kLayer, "mask"};
constexpr Integer kGroups{kGroup, "groups"}, kGroupMask{kGroup, "mask"};
constexpr Real kLayerEps{kLayer, "eps"}, kGroupEps{kGroup, "eps"};
constexpr ActivationAttributes kLayerActivation{kLayer}, kGroupActivation{kGroup};
// More would leave nothing of the input; a negative one, which torch takes too, makes NaN of rows without deviation.
constexpr double kMostEps = 1e6;

// What an element takes for sharing out, in multiply-adds.
constexpr uint64_t kSoftmaxWork = 16, kNormWork = 8;

Status check_has_rows(const Subject& s) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat}));
  if (s.input(0).rank > 0) return {};
  return failure(Code::op_shape, Section::program, "%s: the input has rank 0, expected 1 or more", s.name())
      .in_tensor(s.op.inputs[0]);
}

Status check_eps(const Subject& s, Real attribute) {
  const double eps = s.real(attribute);
  if (eps >= -kMostEps && eps <= kMostEps) return {};
  return failure(Code::op_attribute, Section::program, "%s: eps is %g, allowed are %g to %g", s.name(), eps, -kMostEps,
                 kMostEps);
}

// The attribute says which of weight and bias follow the input; each has `dims`.
Status check_affine(const Subject& s, Integer attribute, const uint64_t* dims, size_t rank) {
  ALCOVE_TRY(check_integer(s, attribute, "mask", 0, kWeight | kBias));
  const int64_t mask = s.integer(attribute);
  ALCOVE_TRY(check_input_count(s, 1 + static_cast<uint64_t>((mask & kWeight) + (mask >> 1))));
  for (uint8_t k = 1; k < s.op.input_count; ++k) {
    const char* role = k == 1 && (mask & kWeight) != 0 ? "weight" : "bias";
    ALCOVE_TRY(check_type(s, s.op.inputs[k], role, {.dtypes = kFloat}));
    ALCOVE_TRY(check_shape(s, s.op.inputs[k], role, dims, rank));
  }
  return {};
}

struct Affine {
  const float* weight;
  const float* bias;
};

Affine make_affine(const Call& c, int64_t mask) noexcept {
  const bool has_weight = (mask & kWeight) != 0;
  const bool has_bias = (mask & kBias) != 0;
  return {has_weight ? c.in<float>(1) : nullptr, has_bias ? c.in<float>(has_weight ? 2 : 1) : nullptr};
}

struct Bounds {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

Bounds make_bounds(const Call& c, ActivationAttributes attributes) noexcept {
  if (c.integer(attributes.function) == 0) return {};
  return {static_cast<float>(c.real(attributes.low)), static_cast<float>(c.real(attributes.high))};
}

}  // namespace

Status check_softmax(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_has_rows(s));
  ALCOVE_TRY(check_integer(s, kIsLog, "is_log", 0, 1));
  ALCOVE_TRY(check_like_input(s));
  // An exponential and a division take sixteen, a row some time of its own.
  const Tensor& in = s.input(0);
  cost = elements(in) * 16 + Checked(in.element_count() / in.dims[in.rank - 1]) * 64;
  return {};
}

Status run_softmax(const Call& c) noexcept {
  const size_t count = c.input(0).dims[c.input(0).rank - 1];
  const size_t rows = c.input(0).element_count() / count;
  c.split(rows, rows * count * kSoftmaxWork, [&](size_t first, size_t end, size_t) noexcept {
    const size_t at = first * count;
    c.kernels.softmax_f32({c.in<float>(0) + at, c.out<float>(0) + at, end - first, count, c.integer(kIsLog) == 1});
  });
  return {};
}

Status check_layer_norm(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_has_rows(s));
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_integer(s, kIsRms, "is_rms", 0, 1));
  ALCOVE_TRY(check_integer(s, kAxisCount, "axis_count", 1, in.rank));
  const auto count = static_cast<size_t>(s.integer(kAxisCount));
  uint64_t dims[kMaxRank];
  for (size_t d = 0; d < count; ++d) dims[d] = in.dims[in.rank - count + d];
  ALCOVE_TRY(check_affine(s, kLayerMask, dims, count));
  ALCOVE_TRY(check_eps(s, kLayerEps));
  ALCOVE_TRY(check_activation(s, kLayerActivation, Activation::clamp));
  ALCOVE_TRY(check_like_input(s));
  cost = elements(in) * 8;
  return {};
}

Status run_layer_norm(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  size_t n = 1;
  for (auto d = static_cast<size_t>(in.rank - c.integer(kAxisCount)); d < in.rank; ++d) n *= in.dims[d];
  const Affine affine = make_affine(c, c.integer(kLayerMask));
  const Bounds bounds = make_bounds(c, kLayerActivation);
  const size_t rows = in.element_count() / n;
  c.split(rows, rows * n * kNormWork, [&](size_t first, size_t end, size_t) noexcept {
    const size_t at = first * n;
    c.kernels.layer_norm_f32({c.in<float>(0) + at, affine.weight, affine.bias, c.out<float>(0) + at, end - first, n,
                              static_cast<float>(c.real(kLayerEps)), c.integer(kIsRms) == 1, bounds.low, bounds.high});
  });
  return {};
}

Status check_group_norm(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat}));
  const Tensor& in = s.input(0);
  if (in.rank < 2) {
    return failure(Code::op_shape, Section::program, "group_norm: the input has rank %u, expected 2 or more", in.rank)
        .in_tensor(s.op.inputs[0]);
  }
  const uint64_t channels = in.dims[in.rank - 1];
  ALCOVE_TRY(check_integer(s, kGroups, "groups", 1, static_cast<int64_t>(channels)));
  if (channels % static_cast<uint64_t>(s.integer(kGroups)) != 0) {
    return failure(Code::op_attribute, Section::program,
                   "group_norm: %" PRId64 " groups don't divide %" PRIu64 " channels", s.integer(kGroups), channels);
  }
  ALCOVE_TRY(check_affine(s, kGroupMask, &channels, 1));
  ALCOVE_TRY(check_eps(s, kGroupEps));
  ALCOVE_TRY(check_activation(s, kGroupActivation, Activation::clamp));
  ALCOVE_TRY(check_like_input(s));
  cost = elements(in) * 8;
  return {};
}

Status run_group_norm(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const Affine affine = make_affine(c, c.integer(kGroupMask));
  const Bounds bounds = make_bounds(c, kGroupActivation);
  const size_t samples = in.dims[0];
  const size_t channels = in.dims[in.rank - 1];
  c.kernels.group_norm_f32({c.in<float>(0), affine.weight, affine.bias, c.out<float>(0), samples,
                            in.element_count() / (samples * channels), channels,
                            static_cast<size_t>(c.integer(kGroups)), static_cast<float>(c.real(kGroupEps)), bounds.low,
                            bounds.high});
  return {};
}

}  // namespace alcove::ops
