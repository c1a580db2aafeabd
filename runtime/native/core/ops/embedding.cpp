// Tables of vectors: text_embedding_bag for the hashed ids of one text, embedding_bag_offsets for bags of any ids.
#include <algorithm>

#include "core/ops/movement.h"

namespace alcove::ops {

namespace {

constexpr Integer kMode{{OpCode::text_embedding_bag, OpCode::embedding_bag_offsets}, "mode"};
constexpr OpCode kOffsets = OpCode::embedding_bag_offsets;
constexpr Integer kPadding{kOffsets, "padding"}, kHasOffsets{kOffsets, "has_offsets"},
    kHasWeights{kOffsets, "has_weights"};
constexpr Integer kBuckets{OpCode::ngram_hash, "buckets"};

// Ids of a program's own hash must fit the table; all others are checked in the run.
Status check_bag_ids(const Subject& s, uint32_t rows) {
  const int32_t writer = s.writers[s.op.inputs[0]];
  if (writer < 0) return {};
  const Op& op = s.program.ops[static_cast<size_t>(writer)];
  if (op.code != OpCode::ngram_hash || static_cast<uint64_t>(kBuckets.read(op)) > rows) {
    return failure(Code::index_bound, Section::program,
                   "text_embedding_bag: ids must come from the caller or from an ngram_hash of at most %" PRIu32
                   " buckets",
                   rows)
        .in_tensor(s.op.inputs[0]);
  }
  return {};
}

}  // namespace

Status check_text_embedding_bag(const Subject& s, Checked& cost) {
  const bool is_i8 = s.op.input_count == 3;
  const uint32_t dtypes = make_set({is_i8 ? DType::i8 : DType::f32});
  ALCOVE_TRY(
      check_type(s, s.op.inputs[0], "ids", {.dtypes = make_set({DType::i32}), .rank = 1, .may_be_ragged = true}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "table", {.dtypes = dtypes, .rank = 2, .is_constant = true}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat, .rank = 2}));
  const uint32_t rows = s.input(1).dims[0];
  const uint32_t dim = s.input(1).dims[1];
  if (is_i8) {
    ALCOVE_TRY(check_type(s, s.op.inputs[2], "scale", {.dtypes = kFloat, .rank = 1, .is_constant = true}));
    ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "scale", 0, dim));
  }
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, 1));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 1, dim));
  ALCOVE_TRY(check_integer(s, kMode, "mode", 0, 1));
  if (s.input(0).dims[0] > kMaxBagIds) {
    return failure(Code::op_shape, Section::program, "text_embedding_bag: %" PRIu32 " ids, the cap is %" PRIu32,
                   s.input(0).dims[0], kMaxBagIds)
        .in_tensor(s.op.inputs[0]);
  }
  ALCOVE_TRY(check_bag_ids(s, rows));
  // Each id costs a cache line, however short its row.
  cost = Checked(s.input(0).dims[0]) * std::max<uint64_t>(dim, kTensorAlignment);
  return {};
}

Status run_text_embedding_bag(const Call& c) noexcept {
  const Tensor& table = c.input(1);
  const auto* ids = c.in<int32_t>(0);
  if (c.checks_indices) {
    for (uint64_t i = 0; i < c.extent(0); ++i) {
      if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= table.dims[0])
        return c.bad_index(0, i, ids[i], 0, table.dims[0]);
    }
  }
  const bool is_mean = c.integer(kMode) == 1;
  if (table.dtype == DType::i8) {
    c.kernels.text_embedding_bag_i8(
        {ids, c.extent(0), c.in<int8_t>(1), c.in<float>(2), table.dims[1], is_mean, c.out<float>(0)});
  } else {
    c.kernels.text_embedding_bag_f32({ids, c.extent(0), c.in<float>(1), table.dims[1], is_mean, c.out<float>(0)});
  }
  return {};
}

Status check_embedding_bag_offsets(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_integer(s, kMode, "mode", 0, kernels::kBagModes - 1));
  ALCOVE_TRY(check_integer(s, kPadding, "padding", -1, INT64_MAX));
  ALCOVE_TRY(check_integer(s, kHasOffsets, "has_offsets", 0, 1));
  ALCOVE_TRY(check_integer(s, kHasWeights, "has_weights", 0, 1));
  const bool has_offsets = s.integer(kHasOffsets) == 1, has_weights = s.integer(kHasWeights) == 1;
  if (has_weights) ALCOVE_TRY(check_integer(s, kMode, "mode with weights", 0, 0));
  ALCOVE_TRY(check_input_count(s, 2u + (has_offsets ? 1 : 0) + (has_weights ? 1 : 0)));
  const Tensor& ids = s.input(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "ids", {.dtypes = kIndices, .rank = has_offsets ? 1 : 2}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "table", {.dtypes = kFloat, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat, .rank = 2}));
  const uint64_t bags = s.output(0).dims[0];
  if (has_offsets) {
    ALCOVE_TRY(check_type(s, s.op.inputs[2], "offsets", {.dtypes = kIndices, .rank = 1}));
    if (s.input(2).dims[0] != bags + 1) ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "offsets", 0, bags));
  } else {
    ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "ids", 0, bags));
  }
  if (has_weights) {
    const uint8_t last = has_offsets ? 3 : 2;
    const uint64_t dims[] = {ids.dims[0], ids.dims[1]};
    ALCOVE_TRY(check_type(s, s.op.inputs[last], "weights", {.dtypes = kFloat}));
    ALCOVE_TRY(check_shape(s, s.op.inputs[last], "weights", dims, ids.rank));
  }
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 1, s.input(1).dims[1]));
  // Each id costs a cache line, however short its row.
  cost = elements(ids) * std::max<uint64_t>(s.input(1).dims[1], kTensorAlignment) + elements(s.output(0)) * 2;
  return {};
}

Status run_embedding_bag_offsets(const Call& c) noexcept {
  const bool has_offsets = c.integer(kHasOffsets) == 1;
  kernels::EmbeddingBagOffsetsF32 args{};
  args.ids = make_indices(c, 0);
  args.table = c.in<float>(1);
  args.rows = c.input(1).dims[0];
  args.dim = c.input(1).dims[1];
  if (has_offsets) {
    args.offsets = make_indices(c, 2);
  } else {
    args.bag_size = c.input(0).dims[1];
  }
  if (c.integer(kHasWeights) == 1) args.weights = c.in<float>(has_offsets ? 3 : 2);
  args.bags = c.output(0).dims[0];
  args.padding = c.integer(kPadding);
  args.mode = static_cast<kernels::BagMode>(c.integer(kMode));
  args.output = c.out<float>(0);
  const kernels::EmbeddingBagOffsetsResult result = c.kernels.embedding_bag_offsets_f32(args);
  if (result.fault == kernels::BagFault::none) return {};
  if (result.fault == kernels::BagFault::id) return bad_index_at(c, 0, result.position, args.rows, false);
  // The first offset is 0; each other lies between the one before and the number of ids.
  const size_t at = result.position;
  const int64_t low = at == 0 ? 0 : kernels::index_at(args.offsets, at - 1);
  const int64_t most = at == 0 ? 0 : static_cast<int64_t>(args.ids.count);
  return c.bad_index(2, at, kernels::index_at(args.offsets, at), low, most + 1);
}

}  // namespace alcove::ops
