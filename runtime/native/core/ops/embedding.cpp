// Tables of vectors: embedding_bag.
#include <algorithm>

#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

// Ids of a program's own hash must fit the table; all others are checked in the run.
Status check_bag_ids(const Subject& s, uint32_t rows) {
  const int32_t writer = s.writers[s.op.inputs[0]];
  if (writer < 0) return {};
  const Op& op = s.program.ops[static_cast<size_t>(writer)];
  if (op.code != OpCode::ngram_hash || op.attributes[2] > rows) {
    return failure(Code::index_bound, Section::program,
                   "embedding_bag: ids must come from the caller or from an ngram_hash of at most %" PRIu32 " buckets", rows)
        .in_tensor(s.op.inputs[0]);
  }
  return {};
}

}  // namespace

Status check_embedding_bag(const Subject& s, Checked& steps) {
  const bool is_i8 = s.op.input_count == 3;
  const uint32_t dtypes = set_of({is_i8 ? DType::i8 : DType::f32});
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "ids", {.dtypes = set_of({DType::i32}), .rank = 1, .may_be_ragged = true}));
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
  ALCOVE_TRY(check_integer(s, 0, "mode", 0, 1));
  if (s.input(0).dims[0] > kMaxBagIds) {
    return failure(Code::op_shape, Section::program, "embedding_bag: %" PRIu32 " ids, the cap is %" PRIu32,
                   s.input(0).dims[0], kMaxBagIds)
        .in_tensor(s.op.inputs[0]);
  }
  ALCOVE_TRY(check_bag_ids(s, rows));
  // Each id costs a cache line, however short its row.
  steps = Checked(s.input(0).dims[0]) * std::max<uint64_t>(dim, kTensorAlignment);
  return {};
}

Status run_embedding_bag(const Call& c) noexcept {
  const Tensor& table = c.input(1);
  const auto* ids = c.in<int32_t>(0);
  if (c.checks_indices) {
    for (uint64_t i = 0; i < c.extent(0); ++i) {
      if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= table.dims[0]) return c.bad_index(0, i, ids[i], 0, table.dims[0]);
    }
  }
  const bool is_mean = c.integer(0) == 1;
  if (table.dtype == DType::i8) {
    c.kernels.embedding_bag_i8(
        {ids, c.extent(0), c.in<int8_t>(1), c.in<float>(2), table.dims[1], is_mean, c.out<float>(0)});
  } else {
    c.kernels.embedding_bag_f32({ids, c.extent(0), c.in<float>(1), table.dims[1], is_mean, c.out<float>(0)});
  }
  return {};
}

}  // namespace alcove::ops
