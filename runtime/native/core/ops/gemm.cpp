// Matrix products: linear with constant weights, matmul of two operands that are computed.
#include "core/ops/gemm.h"

namespace alcove::ops {

namespace {

constexpr Integer kHasResidual{OpCode::linear, "has_residual"}, kIsTransposed{OpCode::matmul, "is_transposed"};
constexpr ActivationAttributes kActivation{OpCode::linear};

// The n, k of a matmul; the rule has checked that both operands agree.
struct Sizes {
  uint32_t m, n, k;
};

Sizes read_matmul_sizes(const Tensor& left, const Tensor& right, bool is_transposed) noexcept {
  const uint32_t rows = right.dims[right.rank - 2], columns = right.dims[right.rank - 1];
  return {left.dims[left.rank - 2], is_transposed ? rows : columns, is_transposed ? columns : rows};
}

}  // namespace

bool broadcast_into(const Tensor& operand, Batch& batch) noexcept {
  const size_t rank = operand.rank - 2u;
  Batch grown;
  grown.rank = rank > batch.rank ? rank : batch.rank;
  for (size_t back = 1; back <= grown.rank; ++back) {
    const size_t size = back <= batch.rank ? batch.dims[batch.rank - back] : 1;
    const size_t own = back <= rank ? operand.dims[rank - back] : 1;
    if (size != own && size != 1 && own != 1) return false;
    grown.dims[grown.rank - back] = own == 1 ? size : own;
  }
  batch = grown;
  return true;
}

void set_strides(const Tensor& operand, const Batch& batch, size_t* strides) noexcept {
  const size_t rank = operand.rank - 2u;
  size_t stride = size_t{operand.dims[rank]} * operand.dims[rank + 1];
  for (size_t d = rank; d-- > 0;) {
    strides[batch.rank - rank + d] = operand.dims[d] == 1 ? 0 : stride;
    stride *= operand.dims[d];
  }
  for (size_t d = 0; d < batch.rank - rank; ++d) strides[d] = 0;
}

Status check_batched_output(const Subject& s, const Batch& batch, uint64_t rows, uint64_t columns, uint32_t dtypes) {
  uint64_t dims[kMaxRank];
  for (size_t d = 0; d < batch.rank; ++d) dims[d] = batch.dims[d];
  dims[batch.rank] = rows;
  dims[batch.rank + 1] = columns;
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = dtypes}));
  return check_shape(s, s.op.outputs[0], "output", dims, batch.rank + 2);
}

Status batch_failure(const Subject& s) {
  return failure(Code::op_shape, Section::program, "%s: the batch dimensions of its inputs don't fit each other",
                 s.name());
}

void split_gemm(const Call& c, const GemmSizes& sizes, bool has_stride, uint64_t gain, BlockRun* run,
                const void* context) noexcept {
  constexpr uint64_t kFewRows = 32, kTileRows = 8;
  // The weights of so few rows come from memory, not from a cache: that takes longer than the sums.
  constexpr uint64_t kReadRows = 4, kReadWork = 2;
  const uint64_t work = sizes.rows * sizes.n * sizes.k / gain * (sizes.rows <= kReadRows ? kReadWork : 1);
  const bool is_by_panel = sizes.rows == 1 || (has_stride && sizes.rows < kFewRows);
  const uint64_t tile = is_by_panel ? 16 : sizes.rows < kFewRows ? 1 : kTileRows;
  const uint64_t extent = is_by_panel ? sizes.n : sizes.rows;
  const size_t tiles = (extent + tile - 1) / tile;
  c.split(tiles, work, [&](size_t first, size_t end, size_t part) noexcept {
    const uint64_t from = first * tile, to = end * tile < extent ? end * tile : extent;
    Block block = {0, sizes.rows, 0, sizes.n};
    (is_by_panel ? block.column : block.row) = from;
    (is_by_panel ? block.columns : block.rows) = to - from;
    run(context, block, part);
  });
}

static void skip_panels(kernels::LinearF32& args, size_t count) noexcept {
  args.panels += kernels::panel_floats(count, args.k);
}

static void skip_panels(kernels::LinearHalves& args, size_t count) noexcept {
  args.halves += kernels::panel_floats(count, args.k) * sizeof(uint16_t);
}

template <typename Product>
static void split_product(const Call& c, const Product& args, void (*kernel)(const Product&) noexcept) noexcept {
  split_gemm(c, {args.m, args.n, args.k}, true, 1, [&](const Block& at, size_t) noexcept {
    Product some = args;
    const size_t first = at.row * args.n + at.column;
    some.input += at.row * args.k;
    skip_panels(some, at.column / 16);
    some.output += first;
    if (some.residual != nullptr) some.residual += first;
    some.m = at.rows;
    some.n = at.columns;
    some.output_stride = args.n;
    kernel(some);
  });
}

void split_linear(const Call& c, const kernels::LinearF32& args) noexcept {
  split_product(c, args, c.kernels.linear_f32);
}

Status check_panels(const Subject& s, uint32_t index, const char* role, uint64_t n, uint64_t k) {
  ALCOVE_TRY(check_type(s, index, role, {.dtypes = kFloat, .rank = 2, .is_constant = true, .layout = Layout::panel16}));
  if (n > 0) ALCOVE_TRY(check_dimension(s, index, role, 0, n));
  if (k > 0) ALCOVE_TRY(check_dimension(s, index, role, 1, k));
  return {};
}

Status check_linear(const Subject& s, Checked& cost) {
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat}));
  if (in.rank == 0) {
    return failure(Code::op_shape, Section::program, "linear: input has rank 0, expected 1 or more")
        .in_tensor(s.op.inputs[0]);
  }
  ALCOVE_TRY(check_panels(s, s.op.inputs[1], "weight", 0, in.dims[in.rank - 1]));
  const Tensor& weight = s.input(1);
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  dims[in.rank - 1] = weight.dims[0];
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, in.rank));
  ALCOVE_TRY(check_integer(s, kHasResidual, "has_residual", 0, 1));
  ALCOVE_TRY(check_activation(s, kActivation, Activation::hardsigmoid));
  ALCOVE_TRY(check_input_count(s, s.integer(kHasResidual) == 1 ? 3 : 2));
  if (s.op.input_count == 3) {
    ALCOVE_TRY(check_type(s, s.op.inputs[2], "residual", {.dtypes = kFloat}));
    ALCOVE_TRY(check_shape(s, s.op.inputs[2], "residual", dims, in.rank));
  }
  uint64_t rows = 1;
  for (uint8_t d = 0; d + 1 < in.rank; ++d) rows *= in.dims[d];
  cost = Checked(rows) * (weight.size_bytes / sizeof(float));
  return {};
}

Status run_linear(const Call& c) noexcept {
  const Tensor& weight = c.input(1);
  kernels::LinearHalves args{};
  args.input = c.in<float>(0);
  args.output = c.out<float>(0);
  args.n = weight.dims[0];
  args.k = weight.dims[1];
  args.m = c.input(0).element_count() / args.k;
  if (c.integer(kHasResidual) == 1) args.residual = c.in<float>(2);
  args.activation = c.activation(kActivation);
  if (weight.is_half_in_place()) {
    args.halves = c.in<uint8_t>(1);
    args.is_f16 = weight.stored == DType::f16;
    split_product(c, args, c.kernels.linear_halves);
  } else {
    args.panels = c.in<float>(1);
    split_linear(c, args);
  }
  return {};
}

Status check_matmul(const Subject& s, Checked& cost) {
  for (uint8_t i = 0; i < 2; ++i) {
    const char* role = i == 0 ? "left" : "right";
    ALCOVE_TRY(check_type(s, s.op.inputs[i], role, {.dtypes = kFloat}));
    if (s.input(i).rank < 2) {
      return failure(Code::op_shape, Section::program, "matmul: %s has rank %u, expected 2 or more", role,
                     s.input(i).rank)
          .in_tensor(s.op.inputs[i]);
    }
  }
  ALCOVE_TRY(check_integer(s, kIsTransposed, "is_transposed", 0, 1));
  const Tensor &left = s.input(0), &right = s.input(1);
  const Sizes sizes = read_matmul_sizes(left, right, s.integer(kIsTransposed) == 1);
  ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "left", left.rank - 1u, sizes.k));
  Batch batch;
  if (!broadcast_into(left, batch) || !broadcast_into(right, batch)) return batch_failure(s);
  ALCOVE_TRY(check_batched_output(s, batch, sizes.m, sizes.n));
  ALCOVE_TRY(check_scratch(s, 1, kernels::matmul_scratch_floats<Checked>(sizes.n, sizes.k) * sizeof(float)));
  // Packing a right operand is charged as one more row; each product of a batch takes some time of its own.
  Checked count = 1;
  for (size_t d = 0; d < batch.rank; ++d) count = count * batch.dims[d];
  cost = count * ((Checked(sizes.m) + 1) * ((sizes.n + 15ull) / 16 * 16) * (Checked(sizes.k) + 1) + 512);
  return {};
}

Status run_matmul(const Call& c) noexcept {
  const Tensor &left = c.input(0), &right = c.input(1);
  kernels::MatmulF32 args{};
  args.is_transposed = c.integer(kIsTransposed) == 1;
  const Sizes sizes = read_matmul_sizes(left, right, args.is_transposed);
  args.linear = c.kernels.linear_f32;
  args.left = c.in<float>(0);
  args.right = c.in<float>(1);
  args.output = c.out<float>(0);
  args.scratch = c.out<float>(1);
  args.m = sizes.m;
  args.n = sizes.n;
  args.k = sizes.k;
  Batch batch;
  // The rule has seen that they fit; one right operand for all is one product with more rows.
  const bool is_one = right.element_count() == uint64_t{sizes.n} * sizes.k && right.rank <= left.rank;
  if (is_one) {
    args.m = left.element_count() / sizes.k;
  } else if (!broadcast_into(left, batch) || !broadcast_into(right, batch)) {
    return {};
  }
  args.batch_rank = batch.rank;
  for (size_t d = 0; d < batch.rank; ++d) args.batch[d] = batch.dims[d];
  if (!is_one) {
    set_strides(left, batch, args.left_strides);
    set_strides(right, batch, args.right_strides);
  }
  c.kernels.matmul_f32(args);
  return {};
}

}  // namespace alcove::ops
