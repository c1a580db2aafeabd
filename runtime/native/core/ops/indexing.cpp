// Reads and writes where data says: every index is compared with its bound in the run, before anything moves.
#include "core/ops/movement.h"
#include "core/widen.h"

namespace alcove::ops {

namespace {

constexpr Integer kAxis{{OpCode::index_select, OpCode::gather, OpCode::scatter, OpCode::index_put, OpCode::write_rows},
                        "axis"};
constexpr OpCodes kCombining = {OpCode::scatter, OpCode::index_put};
constexpr Integer kScatterMode{kCombining, "mode"}, kIncludesSelf{kCombining, "includes_self"};
constexpr Integer kSelectWraps{OpCode::index_select, "wraps"}, kPutWraps{OpCode::index_put, "wraps"},
    kWriteWraps{OpCode::write_rows, "wraps"};
constexpr Integers kBounds = Integers::numbered({OpCode::ravel_multi_index}, "bound");
constexpr Integer kIsRight{OpCode::searchsorted, "is_right"};

Status check_axis(const Subject& s, const Tensor& tensor) {
  return check_integer(s, kAxis, "axis", 0, int64_t{tensor.rank} - 1);
}

// The shape of `rows` where the indices of input 1 stand in place of the axis of input 0; false if its rank is too high.
bool infer_rows_shape(const Subject& s, uint64_t* dims, size_t& rank) {
  const Tensor& in = s.input(0);
  const Tensor& indices = s.input(1);
  const auto axis = static_cast<uint8_t>(s.integer(kAxis));
  rank = size_t{in.rank} + indices.rank - 1;
  if (rank > kMaxRank) return false;
  size_t d = 0;
  for (uint8_t i = 0; i < axis; ++i) dims[d++] = in.dims[i];
  for (uint8_t i = 0; i < indices.rank; ++i) dims[d++] = indices.dims[i];
  for (uint8_t i = static_cast<uint8_t>(axis + 1); i < in.rank; ++i) dims[d++] = in.dims[i];
  return true;
}

Status check_rows(const Subject& s, uint32_t index, const char* role) {
  uint64_t dims[kMaxRank];
  size_t rank = 0;
  ALCOVE_TRY(check_same_dtype(s, index, role, s.input(0).dtype));
  if (!infer_rows_shape(s, dims, rank)) {
    return failure(Code::op_shape, Section::program, "%s: %s would have rank %zu, the cap is %" PRIu32, s.name(), role,
                   rank, kMaxRank)
        .in_tensor(index);
  }
  return check_shape(s, index, role, dims, rank);
}

// Every dimension of `tensor` is at least that of the indices, but for the axis where it is `exempt`.
Status check_covers(const Subject& s, uint32_t index, const char* role, bool is_axis_exempt) {
  const Tensor& tensor = s.program.tensors[index];
  const Tensor& indices = s.input(1);
  if (tensor.rank != indices.rank) {
    return failure(Code::op_shape, Section::program, "%s: %s has rank %u, the indices %u", s.name(), role, tensor.rank,
                   indices.rank)
        .in_tensor(index);
  }
  for (uint8_t d = 0; d < tensor.rank; ++d) {
    if ((is_axis_exempt && d == s.integer(kAxis)) || tensor.dims[d] >= indices.dims[d]) continue;
    return failure(Code::op_shape, Section::program, "%s: dimension %u of %s is %" PRIu32 ", the indices' is %" PRIu32,
                   s.name(), d, role, tensor.dims[d], indices.dims[d])
        .in_tensor(index);
  }
  return {};
}

// Mode, `includes_self` and the types that can be combined.
Status check_combination(const Subject& s) {
  ALCOVE_TRY(check_integer(s, kScatterMode, "mode", 0, kernels::kScatterModes - 1));
  ALCOVE_TRY(check_integer(s, kIncludesSelf, "includes_self", 0, 1));
  const bool combines = s.integer(kScatterMode) != static_cast<int64_t>(kernels::ScatterMode::set);
  return check_type(s, s.op.inputs[0], "input", {.dtypes = combines ? kFloat | kIndices : kAnyType});
}

uint64_t multiply_dims(const Tensor& tensor, uint8_t first, uint8_t end) noexcept {
  uint64_t count = 1;
  for (uint8_t d = first; d < end; ++d) count *= tensor.dims[d];
  return count;
}

void copy_dims(const Tensor& tensor, size_t* dims) noexcept {
  for (uint8_t d = 0; d < tensor.rank; ++d) dims[d] = tensor.dims[d];
}

}  // namespace

Status check_index_select(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "indices", {.dtypes = kIndices}));
  ALCOVE_TRY(check_axis(s, s.input(0)));
  ALCOVE_TRY(check_integer(s, kSelectWraps, "wraps", 0, 1));
  ALCOVE_TRY(check_rows(s, s.op.outputs[0], "output"));
  // Each index costs about a cache line, however short its row.
  cost = elements(s.output(0)) + elements(s.input(1)) * kTensorAlignment;
  return {};
}

Status run_index_select(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const auto axis = static_cast<uint8_t>(c.integer(kAxis));
  kernels::IndexSelect args{};
  args.input = c.in<uint8_t>(0);
  args.indices = make_indices(c, 1);
  args.output = c.out<uint8_t>(0);
  args.outer = multiply_dims(in, 0, axis);
  args.bound = in.dims[axis];
  const bool is_half = in.is_half_in_place();
  args.row_bytes =
      multiply_dims(in, static_cast<uint8_t>(axis + 1), in.rank) * dtype_bytes(is_half ? in.stored : in.dtype);
  args.wraps = c.integer(kSelectWraps) == 1;
  // Rows of 16 bits go to the second half of the output and are widened from there, in order: no number is overwritten
  // before it is read.
  const size_t count = c.output(0).element_count();
  if (is_half) args.output += 2 * count;
  const size_t bad = c.kernels.index_select_any(args);
  if (is_half) widen(args.output, in.stored == DType::f16, count, c.out<float>(0));
  return bad == args.indices.count ? Status{} : bad_index_at(c, 1, bad, args.bound, args.wraps);
}

Status check_gather(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "indices", {.dtypes = kIndices}));
  ALCOVE_TRY(check_axis(s, s.input(0)));
  ALCOVE_TRY(check_covers(s, s.op.inputs[0], "input", true));
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", s.input(0).dtype));
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < s.input(1).rank; ++d) dims[d] = s.input(1).dims[d];
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, s.input(1).rank));
  cost = elements(s.output(0)) * 8;
  return {};
}

Status run_gather(const Call& c) noexcept {
  kernels::Gather args{};
  args.input = c.in<uint8_t>(0);
  args.indices = make_indices(c, 1);
  args.output = c.out<uint8_t>(0);
  args.element_bytes = dtype_bytes(c.input(0).dtype);
  args.rank = c.input(0).rank;
  args.axis = static_cast<size_t>(c.integer(kAxis));
  copy_dims(c.input(1), args.dims);
  copy_dims(c.input(0), args.input_dims);
  const size_t bad = c.kernels.gather_any(args);
  return bad == args.indices.count ? Status{} : bad_index_at(c, 1, bad, args.input_dims[args.axis], false);
}

Status check_scatter(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_combination(s));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "indices", {.dtypes = kIndices}));
  ALCOVE_TRY(check_same_dtype(s, s.op.inputs[2], "source", s.input(0).dtype));
  ALCOVE_TRY(check_axis(s, s.input(0)));
  ALCOVE_TRY(check_covers(s, s.op.inputs[0], "input", true));
  ALCOVE_TRY(check_covers(s, s.op.inputs[2], "source", false));
  ALCOVE_TRY(check_like_input(s));
  cost = elements(s.input(0)) + elements(s.input(1)) * 16;
  return {};
}

Status run_scatter(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  kernels::Scatter args{};
  args.input = c.in<uint8_t>(0);
  args.indices = make_indices(c, 1);
  args.source = c.in<uint8_t>(2);
  args.output = c.out<uint8_t>(0);
  args.element_bytes = dtype_bytes(in.dtype);
  args.rank = in.rank;
  args.axis = static_cast<size_t>(c.integer(kAxis));
  copy_dims(c.input(1), args.dims);
  copy_dims(c.input(2), args.source_dims);
  copy_dims(in, args.output_dims);
  args.mode = static_cast<kernels::ScatterMode>(c.integer(kScatterMode));
  args.includes_self = c.integer(kIncludesSelf) == 1;
  kernels::ScatterKernel* kernel = c.kernels.scatter_any;
  if (args.mode != kernels::ScatterMode::set) {
    kernel = in.dtype == DType::f32   ? c.kernels.scatter_f32
             : in.dtype == DType::i32 ? c.kernels.scatter_i32
                                      : c.kernels.scatter_i64;
  }
  const size_t bad = kernel(args);
  return bad == args.indices.count ? Status{} : bad_index_at(c, 1, bad, args.output_dims[args.axis], false);
}

Status check_index_put(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_combination(s));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "indices", {.dtypes = kIndices}));
  ALCOVE_TRY(check_axis(s, s.input(0)));
  ALCOVE_TRY(check_integer(s, kPutWraps, "wraps", 0, 1));
  ALCOVE_TRY(check_rows(s, s.op.inputs[2], "source"));
  ALCOVE_TRY(check_like_input(s));
  cost = elements(s.input(0)) + elements(s.input(2)) * 8 + elements(s.input(1)) * kTensorAlignment;
  return {};
}

Status run_index_put(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const auto axis = static_cast<uint8_t>(c.integer(kAxis));
  kernels::IndexPut args{};
  args.input = c.in<uint8_t>(0);
  args.indices = make_indices(c, 1);
  args.source = c.in<uint8_t>(2);
  args.output = c.out<uint8_t>(0);
  args.element_bytes = dtype_bytes(in.dtype);
  args.outer = multiply_dims(in, 0, axis);
  args.bound = in.dims[axis];
  args.row = multiply_dims(in, static_cast<uint8_t>(axis + 1), in.rank);
  args.mode = static_cast<kernels::ScatterMode>(c.integer(kScatterMode));
  args.includes_self = c.integer(kIncludesSelf) == 1;
  args.wraps = c.integer(kPutWraps) == 1;
  kernels::IndexPutKernel* kernel = c.kernels.index_put_any;
  if (args.mode != kernels::ScatterMode::set) {
    kernel = in.dtype == DType::f32   ? c.kernels.index_put_f32
             : in.dtype == DType::i32 ? c.kernels.index_put_i32
                                      : c.kernels.index_put_i64;
  }
  const size_t bad = kernel(args);
  return bad == args.indices.count ? Status{} : bad_index_at(c, 1, bad, args.bound, args.wraps);
}

// The rows of a state that `source` becomes, or the other way round.
static kernels::IndexPut rows_of_state(const Call& c, const uint8_t* source) noexcept {
  const Tensor& state = c.input(0);
  const auto axis = static_cast<uint8_t>(c.integer(kAxis));
  kernels::IndexPut args{};
  args.input = args.output = c.states[c.op.inputs[0]].data;
  args.indices = make_indices(c, 1);
  args.source = source;
  args.element_bytes = dtype_bytes(state.dtype);
  args.outer = multiply_dims(state, 0, axis);
  args.bound = state.dims[axis];
  args.row = multiply_dims(state, static_cast<uint8_t>(axis + 1), state.rank);
  args.mode = kernels::ScatterMode::set;
  args.wraps = c.integer(kWriteWraps) == 1;
  return args;
}

Status check_write_rows(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "state", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "indices", {.dtypes = kIndices}));
  ALCOVE_TRY(check_axis(s, s.input(0)));
  ALCOVE_TRY(check_integer(s, kWriteWraps, "wraps", 0, 1));
  ALCOVE_TRY(check_rows(s, s.op.inputs[2], "source"));
  ALCOVE_TRY(check_rows(s, s.op.outputs[0], "output"));
  cost = elements(s.input(2)) * 16 + elements(s.input(1)) * 2 * kTensorAlignment;
  return {};
}

Status run_write_rows(const Call& c) noexcept {
  const kernels::IndexPut args = rows_of_state(c, c.in<uint8_t>(2));
  kernels::IndexSelect before{};
  before.input = c.in<uint8_t>(0);
  before.indices = args.indices;
  before.output = c.out<uint8_t>(0);
  before.outer = args.outer;
  before.bound = args.bound;
  before.row_bytes = args.row * args.element_bytes;
  before.wraps = args.wraps;
  // Compares every index with its bound before it copies.
  const size_t bad = c.kernels.index_select_any(before);
  if (bad != args.indices.count) return bad_index_at(c, 1, bad, args.bound, args.wraps);
  (void)c.kernels.index_put_any(args);
  return {};
}

void restore_rows(const Call& c) noexcept { (void)c.kernels.index_put_any(rows_of_state(c, c.out<uint8_t>(0))); }

Status check_ravel_multi_index(const Subject& s, Checked& cost) {
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < s.input(0).rank; ++d) dims[d] = s.input(0).dims[d];
  Checked together = 1;
  for (uint8_t i = 0; i < kernels::kMaxRavelMultiIndexInputs; ++i) {
    if (i >= s.op.input_count) {
      ALCOVE_TRY(check_integer(s, kBounds[i], "an unused bound", 0, 0));
      continue;
    }
    ALCOVE_TRY(check_type(s, s.op.inputs[i], "indices", {.dtypes = kIndices}));
    ALCOVE_TRY(check_shape(s, s.op.inputs[i], "indices", dims, s.input(0).rank));
    ALCOVE_TRY(check_integer(s, kBounds[i], "bound", 1, INT64_MAX));
    together = together * static_cast<uint64_t>(s.integer(kBounds[i]));
  }
  if (!together.is_at_most(INT64_MAX)) {
    return failure(Code::op_attribute, Section::program,
                   "ravel_multi_index: the product of the bounds is above 2^63 - 1");
  }
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = make_set({DType::i64})}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, s.input(0).rank));
  cost = elements(s.output(0)) * s.op.input_count * 4;
  return {};
}

Status run_ravel_multi_index(const Call& c) noexcept {
  kernels::RavelMultiIndex args{};
  args.count = c.op.input_count;
  for (uint8_t i = 0; i < c.op.input_count; ++i) {
    args.indices[i] = make_indices(c, i);
    args.bounds[i] = static_cast<uint64_t>(c.integer(kBounds[i]));
  }
  args.output = c.out<int64_t>(0);
  const kernels::RavelMultiIndexResult result = c.kernels.ravel_multi_index_any(args);
  if (result.tensor == args.count) return {};
  return bad_index_at(c, static_cast<uint8_t>(result.tensor), result.position, args.bounds[result.tensor], true);
}

Status check_searchsorted(const Subject& s, Checked& cost) {
  const Tensor& sorted = s.input(0);
  const Tensor& values = s.input(1);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "boundaries", {.dtypes = kFloat | kIndices}));
  ALCOVE_TRY(check_same_dtype(s, s.op.inputs[1], "values", sorted.dtype));
  ALCOVE_TRY(check_integer(s, kIsRight, "is_right", 0, 1));
  if (sorted.rank == 0 || (sorted.rank > 1 && sorted.rank != values.rank)) {
    return failure(Code::op_shape, Section::program, "searchsorted: boundaries have rank %u, values %u", sorted.rank,
                   values.rank)
        .in_tensor(s.op.inputs[0]);
  }
  for (uint8_t d = 0; d + 1 < sorted.rank; ++d) {
    ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "boundaries", d, values.dims[d]));
  }
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < values.rank; ++d) dims[d] = values.dims[d];
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = make_set({DType::i64})}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, values.rank));
  cost = elements(values) * 32;  // a bisection of up to 2^31 boundaries
  return {};
}

Status run_searchsorted(const Call& c) noexcept {
  const Tensor& sorted = c.input(0);
  const bool is_shared = sorted.rank == 1;
  const size_t boundaries = sorted.dims[sorted.rank - 1];
  const size_t rows = is_shared ? 1 : sorted.element_count() / boundaries;
  const size_t count = c.input(1).element_count() / rows;
  const bool is_right = c.integer(kIsRight) == 1;
  auto* out = c.out<int64_t>(0);
  switch (sorted.dtype) {
    case DType::f32:
      c.kernels.searchsorted_f32({c.in<float>(0), c.in<float>(1), out, rows, boundaries, count, is_shared, is_right});
      break;
    case DType::i32:
      c.kernels.searchsorted_i32(
          {c.in<int32_t>(0), c.in<int32_t>(1), out, rows, boundaries, count, is_shared, is_right});
      break;
    default:
      c.kernels.searchsorted_i64(
          {c.in<int64_t>(0), c.in<int64_t>(1), out, rows, boundaries, count, is_shared, is_right});
      break;
  }
  return {};
}

}  // namespace alcove::ops
