// Elements that change their place and nothing else: copies with strides, joins, margins, and what is made from nothing.
#include <cmath>

#include "core/ops/movement.h"

namespace alcove::ops {

namespace {

constexpr OpCodes kStrided = {OpCode::as_strided_copy, OpCode::as_strided_scatter};
constexpr Integer kOffset{kStrided, "offset"};
constexpr Integers kStrides = Integers::numbered(kStrided, "stride");
constexpr Integers kBefore = Integers::numbered({OpCode::pad}, "before");
constexpr Integers kAfter = Integers::numbered({OpCode::pad}, "after");
constexpr Integer kPadMode{OpCode::pad, "mode"}, kAxis{OpCode::concat, "axis"};
constexpr Bits kPadBits{OpCode::pad, "bits"}, kFillBits{OpCode::fill, "bits"};
constexpr Real kStart{OpCode::arange, "start"}, kStep{OpCode::arange, "step"};
constexpr Integer kDiagonal{OpCode::tril_triu, "diagonal"}, kIsUpper{OpCode::tril_triu, "is_upper"};
// Copied from one look at the flag of cancellation to the next: tens of milliseconds where each misses the cache.
constexpr uint64_t kPollElements = 1u << 22;
constexpr int64_t kMostMargin = kMaxDimension;
// Whole numbers that f64 holds exactly.
constexpr double kMostWhole = 9007199254740992.0;

// With offset and strides from the op's attributes, a walk over `walked` stays within the elements of `reached`.
Status check_reach(const Subject& s, const Tensor& walked, const Tensor& reached) {
  Checked down = 0, up = 0;
  for (uint8_t d = 0; d < kMaxRank; ++d) {
    const int64_t stride = s.integer(kStrides[d]);
    if (d >= walked.rank) {
      if (stride == 0) continue;
      return failure(Code::op_attribute, Section::program, "%s: stride%u is %" PRId64 ", which no dimension uses",
                     s.name(), d, stride);
    }
    const uint64_t size = stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
    const Checked span = Checked(size) * (walked.dims[d] - 1);
    if (stride < 0) {
      down = down + span;
    } else {
      up = up + span;
    }
  }
  const int64_t offset = s.integer(kOffset);
  const bool starts_inside = offset >= 0 && down.is_at_most(static_cast<uint64_t>(offset));
  const Checked last = Checked(static_cast<uint64_t>(offset)) + up;
  if (starts_inside && last.is_at_most(reached.element_count() - 1)) return {};
  return failure(Code::op_attribute, Section::program,
                 "%s: from offset %" PRId64 " the strides reach beyond the %" PRIu64 " elements of the tensor",
                 s.name(), offset, reached.element_count());
}

// The attribute holds the bits of one element of this type, and no others.
Status check_element(const Subject& s, Bits attribute, DType dtype) {
  const uint64_t bits = s.bits(attribute);
  const uint32_t size = dtype_bytes(dtype);
  const uint64_t most = dtype == DType::boolean ? 1 : ~uint64_t{0} >> (64 - 8 * size);
  if (bits <= most) return {};
  return failure(Code::op_attribute, Section::program, "%s: %#" PRIx64 " is no %s", s.name(), bits, dtype_name(dtype));
}

// What a walk by the op's strides costs: a cache line for each run of neighbours, and an operation for each element.
Checked walk_cost(const Subject& s, const Tensor& walked) {
  constexpr uint64_t kRunCost = 32;
  uint64_t run = 1;
  for (uint8_t d = walked.rank; d-- > 0;) {
    if (walked.dims[d] == 1) continue;
    if (s.integer(kStrides[d]) != static_cast<int64_t>(run)) break;
    run *= walked.dims[d];
  }
  return elements(walked) + Checked(walked.element_count() / run) * kRunCost;
}

// Where pieces of a walk begin: those of the dimensions before `along` one by one, which this makes 1.
class AsStridedCopyStart {
 public:
  AsStridedCopyStart(kernels::AsStridedCopy& args, uint8_t along) noexcept : along_(along), offset_(args.offset) {
    for (uint8_t d = 0; d < along; ++d) {
      dims_[d] = args.dims[d];
      args.dims[d] = 1;
    }
  }
  void place(uint64_t outer, size_t first, kernels::AsStridedCopy& args) const noexcept {
    args.offset = offset_ + static_cast<int64_t>(first) * args.strides[along_];
    for (uint8_t d = along_; d-- > 0;) {
      args.offset += static_cast<int64_t>(outer % dims_[d]) * args.strides[d];
      outer /= dims_[d];
    }
  }

 private:
  uint8_t along_;
  int64_t offset_;
  size_t dims_[kMaxRank] = {};
};

template <typename Args>
void set_walk(const Call& c, const Tensor& walked, Args& args) noexcept {
  args.element_bytes = dtype_bytes(walked.dtype);
  args.rank = walked.rank;
  args.offset = c.integer(kOffset);
  for (uint8_t d = 0; d < walked.rank; ++d) {
    args.dims[d] = walked.dims[d];
    args.strides[d] = c.integer(kStrides[d]);
  }
}

}  // namespace

Status check_as_strided_copy(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", s.input(0).dtype));
  ALCOVE_TRY(check_reach(s, s.output(0), s.input(0)));
  cost = walk_cost(s, s.output(0));
  return {};
}

Status run_as_strided_copy(const Call& c) noexcept {
  kernels::AsStridedCopy args{};
  args.input = c.in<uint8_t>(0);
  args.output = c.out<uint8_t>(0);
  set_walk(c, c.output(0), args);
  const uint64_t count = c.output(0).element_count();
  if (count <= kPollElements) {
    c.kernels.as_strided_copy_any(args);
    return {};
  }
  // In pieces along the first dimension whose elements have few enough each; those before it one by one.
  uint64_t inner = count;
  uint8_t along = 0;
  while (inner / args.dims[along] > kPollElements) inner /= args.dims[along++];
  const size_t all = args.dims[along];
  inner /= all;
  const size_t piece = static_cast<size_t>(kPollElements / inner);
  const AsStridedCopyStart start(args, along);
  for (uint64_t outer = 0; outer < count / inner / all; ++outer) {
    for (size_t first = 0; first < all; first += piece) {
      if (is_run_cancelled()) return {};
      start.place(outer, first, args);
      args.dims[along] = all - first < piece ? all - first : piece;
      c.kernels.as_strided_copy_any(args);
      args.output += args.dims[along] * inner * args.element_bytes;
    }
  }
  return {};
}

Status check_as_strided_scatter(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_same_dtype(s, s.op.inputs[1], "source", s.input(0).dtype));
  ALCOVE_TRY(check_like_input(s));
  ALCOVE_TRY(check_reach(s, s.input(1), s.input(0)));
  cost = elements(s.input(0)) + walk_cost(s, s.input(1));
  return {};
}

Status run_as_strided_scatter(const Call& c) noexcept {
  kernels::AsStridedScatter args{};
  args.input = c.in<uint8_t>(0);
  args.source = c.in<uint8_t>(1);
  args.output = c.out<uint8_t>(0);
  set_walk(c, c.input(1), args);
  args.size_bytes = c.input(0).element_count() * args.element_bytes;
  c.kernels.as_strided_scatter_any(args);
  return {};
}

Status check_concat(const Subject& s, Checked& cost) {
  static_assert(kMaxOpInputs <= kernels::kMaxConcatInputs);
  const Tensor& first = s.input(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_integer(s, kAxis, "axis", 0, int64_t{first.rank} - 1));
  const auto axis = static_cast<uint8_t>(s.integer(kAxis));
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < first.rank; ++d) dims[d] = first.dims[d];
  uint64_t together = 0;
  for (uint8_t i = 0; i < s.op.input_count; ++i) {
    ALCOVE_TRY(check_same_dtype(s, s.op.inputs[i], "input", first.dtype));
    dims[axis] = s.input(i).rank > axis ? s.input(i).dims[axis] : 0;
    ALCOVE_TRY(check_shape(s, s.op.inputs[i], "input", dims, first.rank));
    together += dims[axis];
  }
  dims[axis] = together;
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", first.dtype));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, first.rank));
  cost = elements(s.output(0));
  return {};
}

Status run_concat(const Call& c) noexcept {
  const auto axis = static_cast<uint8_t>(c.integer(kAxis));
  const Tensor& out = c.output(0);
  kernels::Concat args{};
  size_t inner = dtype_bytes(out.dtype);
  for (uint8_t d = static_cast<uint8_t>(axis + 1); d < out.rank; ++d) inner *= out.dims[d];
  args.outer = 1;
  for (uint8_t d = 0; d < axis; ++d) args.outer *= out.dims[d];
  args.count = c.op.input_count;
  for (uint8_t i = 0; i < c.op.input_count; ++i) {
    args.inputs[i] = c.in<uint8_t>(i);
    args.run_bytes[i] = inner * c.input(i).dims[axis];
  }
  args.output = c.out<uint8_t>(0);
  c.kernels.concat_any(args);
  return {};
}

Status check_pad(const Subject& s, Checked& cost) {
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_integer(s, kPadMode, "mode", 0, kernels::kPadModes - 1));
  const auto mode = static_cast<kernels::PadMode>(s.integer(kPadMode));
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < kMaxRank; ++d) {
    int64_t most = d < in.rank ? kMostMargin : 0;
    if (d < in.rank && mode == kernels::PadMode::reflect) most = int64_t{in.dims[d]} - 1;
    if (d < in.rank && mode == kernels::PadMode::circular) most = in.dims[d];
    ALCOVE_TRY(check_integer(s, kBefore[d], "before", 0, most));
    ALCOVE_TRY(check_integer(s, kAfter[d], "after", 0, most));
    if (d < in.rank) dims[d] = static_cast<uint64_t>(in.dims[d] + s.integer(kBefore[d]) + s.integer(kAfter[d]));
  }
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", in.dtype));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, in.rank));
  ALCOVE_TRY(check_element(s, kPadBits, in.dtype));
  cost = elements(s.output(0)) * 8;
  return {};
}

Status run_pad(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  kernels::Pad args{};
  args.input = c.in<uint8_t>(0);
  args.output = c.out<uint8_t>(0);
  args.element_bytes = dtype_bytes(in.dtype);
  args.rank = in.rank;
  for (uint8_t d = 0; d < in.rank; ++d) {
    args.dims[d] = in.dims[d];
    args.before[d] = static_cast<size_t>(c.integer(kBefore[d]));
    args.after[d] = static_cast<size_t>(c.integer(kAfter[d]));
  }
  args.mode = static_cast<kernels::PadMode>(c.integer(kPadMode));
  args.bits = c.bits(kPadBits);
  c.kernels.pad_any(args);
  return {};
}

Status check_reshape(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", s.input(0).dtype));
  if (s.output(0).element_count() != s.input(0).element_count()) {
    return failure(Code::op_shape, Section::program, "reshape: the output has %" PRIu64 " elements, the input %" PRIu64,
                   s.output(0).element_count(), s.input(0).element_count())
        .in_tensor(s.op.outputs[0]);
  }
  cost = elements(s.input(0));
  return {};
}

Status run_reshape(const Call& c) noexcept {
  c.kernels.reshape_any(
      {c.in<uint8_t>(0), c.out<uint8_t>(0), c.input(0).element_count() * dtype_bytes(c.input(0).dtype)});
  return {};
}

Status check_arange(const Subject& s, Checked& cost) {
  const Tensor& out = s.output(0);
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat | kIndices, .rank = 1}));
  ALCOVE_TRY(check_finite(s, kStart, "start"));
  ALCOVE_TRY(check_finite(s, kStep, "step"));
  if (out.dtype != DType::f32) {
    const double most = out.dtype == DType::i32 ? 2147483647.0 : kMostWhole;
    const double start = s.real(kStart), step = s.real(kStep);
    // The largest distance first, so that the product below is exact.
    const bool is_near = std::fabs(start) <= most && std::fabs(step) <= kMostWhole / out.dims[0];
    if (!is_near || std::trunc(start) != start || std::trunc(step) != step ||
        std::fabs(start + step * (out.dims[0] - 1)) > most) {
      return failure(Code::op_attribute, Section::program,
                     "arange: %" PRIu32 " steps of %g from %g are not whole numbers that the type holds exactly",
                     out.dims[0], step, start);
    }
  }
  cost = elements(out) * 4;
  return {};
}

Status run_arange(const Call& c) noexcept {
  const size_t count = c.output(0).dims[0];
  switch (c.output(0).dtype) {
    case DType::f32: c.kernels.arange_f32({c.out<float>(0), count, c.real(kStart), c.real(kStep)}); break;
    case DType::i32: c.kernels.arange_i32({c.out<int32_t>(0), count, c.real(kStart), c.real(kStep)}); break;
    default: c.kernels.arange_i64({c.out<int64_t>(0), count, c.real(kStart), c.real(kStep)}); break;
  }
  return {};
}

Status check_fill(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_element(s, kFillBits, s.output(0).dtype));
  cost = elements(s.output(0));
  return {};
}

Status run_fill(const Call& c) noexcept {
  c.kernels.fill_any(
      {c.out<uint8_t>(0), c.output(0).element_count(), dtype_bytes(c.output(0).dtype), c.bits(kFillBits)});
  return {};
}

Status check_tril_triu(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  if (s.input(0).rank < 2) {
    return failure(Code::op_shape, Section::program, "tril_triu: the input has rank %u, expected 2 or more",
                   s.input(0).rank)
        .in_tensor(s.op.inputs[0]);
  }
  ALCOVE_TRY(check_like_input(s));
  ALCOVE_TRY(check_integer(s, kDiagonal, "diagonal", -kMostMargin, kMostMargin));
  ALCOVE_TRY(check_integer(s, kIsUpper, "is_upper", 0, 1));
  cost = elements(s.input(0)) * 8;
  return {};
}

Status run_tril_triu(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  kernels::TrilTriu args{};
  args.input = c.in<uint8_t>(0);
  args.output = c.out<uint8_t>(0);
  args.element_bytes = dtype_bytes(in.dtype);
  args.rows = in.dims[in.rank - 2];
  args.columns = in.dims[in.rank - 1];
  args.matrices = in.element_count() / args.rows / args.columns;
  args.diagonal = c.integer(kDiagonal);
  args.is_upper = c.integer(kIsUpper) == 1;
  c.kernels.tril_triu_any(args);
  return {};
}

}  // namespace alcove::ops
