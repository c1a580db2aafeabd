// Pass 4: the rule of each op.  A kernel may assume what its rule establishes, and nothing else.
#include <algorithm>
#include <cinttypes>

#include "core/checked.h"
#include "core/verify.h"
#include "kernels/ngram_hash/ngram_hash.h"

namespace alcove {

namespace {

// One op with what its rule needs to see.
struct Subject {
  const Program& program;
  const Op& op;
  const std::vector<int32_t>& writers;

  const Tensor& input(uint8_t i) const { return program.tensors[op.inputs[i]]; }
  const Tensor& output(uint8_t i) const { return program.tensors[op.outputs[i]]; }
  int64_t integer(uint8_t i) const { return static_cast<int64_t>(op.attributes[i]); }
  const char* name() const { return op_info(static_cast<uint16_t>(op.code))->name; }
};

struct Expected {
  DType dtype;
  int rank;  // -1: any from 1
  Storage storage = Storage::arena;
  Layout layout = Layout::row_major;
  bool may_be_ragged = false;
  bool may_be_constant = false;
};

Status check_type(const Subject& s, uint32_t index, const char* role, const Expected& e) {
  const Tensor& t = s.program.tensors[index];
  if (t.dtype != e.dtype) {
    return failure(Code::op_type, Section::program, "%s: %s is %s, expected %s", s.name(), role, dtype_name(t.dtype),
                   dtype_name(e.dtype))
        .in_tensor(index);
  }
  if (t.storage != e.storage && !(e.may_be_constant && t.storage == Storage::constant)) {
    return failure(Code::op_type, Section::program, "%s: %s must be in the %s", s.name(), role,
                   e.storage == Storage::constant ? "weights" : "arena")
        .in_tensor(index);
  }
  if (t.layout != e.layout) {
    return failure(Code::op_type, Section::program, "%s: %s has the wrong layout", s.name(), role).in_tensor(index);
  }
  if (t.is_ragged && !e.may_be_ragged) {
    return failure(Code::op_type, Section::program, "%s: %s can't be ragged", s.name(), role).in_tensor(index);
  }
  if (e.rank >= 0 ? t.rank != e.rank : t.rank == 0) {
    return failure(Code::op_shape, Section::program, "%s: %s has rank %u, expected %d", s.name(), role, t.rank,
                   e.rank < 0 ? 1 : e.rank)
        .in_tensor(index);
  }
  return {};
}

Status check_dimension(const Subject& s, uint32_t index, const char* role, uint32_t d, uint64_t expected) {
  const Tensor& t = s.program.tensors[index];
  if (t.dims[d] != expected) {
    return failure(Code::op_shape, Section::program, "%s: dimension %" PRIu32 " of %s is %" PRIu32 ", expected %" PRIu64,
                   s.name(), d, role, t.dims[d], expected)
        .in_tensor(index);
  }
  return {};
}

Status check_same_shape(const Subject& s) {
  const Tensor& in = s.input(0);
  const Tensor& out = s.output(0);
  if (in.rank != out.rank) {
    return failure(Code::op_shape, Section::program, "%s: output has rank %u, the input %u", s.name(), out.rank, in.rank)
        .in_tensor(s.op.outputs[0]);
  }
  for (uint8_t d = 0; d < in.rank; ++d) ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", d, in.dims[d]));
  return {};
}

Status check_ngram_hash(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "text", {.dtype = DType::text, .rank = 0}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "ids", {.dtype = DType::i32, .rank = 1, .may_be_ragged = true}));
  if (!s.output(0).is_ragged) {
    return failure(Code::op_type, Section::program, "ngram_hash: ids must be ragged").in_tensor(s.op.outputs[0]);
  }
  const bool fits = s.integer(0) >= 1 && s.integer(0) <= kernels::kNgramMaxOrder && s.integer(1) >= 1 &&
                    s.integer(1) <= kernels::kNgramMaxOrder && s.integer(2) >= 1 && s.integer(2) <= INT32_MAX;
  const kernels::NgramHashParams params = {fits ? static_cast<int32_t>(s.integer(0)) : 0,
                                           fits ? static_cast<int32_t>(s.integer(1)) : 0,
                                           fits ? static_cast<uint32_t>(s.integer(2)) : 0, s.op.attributes[3]};
  if (!kernels::is_valid(params)) {
    return failure(Code::op_attribute, Section::program,
                   "ngram_hash: orders %" PRId64 " to %" PRId64 " with %" PRId64
                   " buckets; allowed are 1 to %d and 1 to 2^31 - 1",
                   s.integer(0), s.integer(1), s.integer(2), kernels::kNgramMaxOrder);
  }
  steps = s.output(0).dims[0];
  return {};
}

// Ids of a program's own hash must fit the table; those of a caller are checked in the run.
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

Status check_embedding_bag(const Subject& s, Checked& steps) {
  const bool is_i8 = s.op.input_count == 3;
  const DType dtype = is_i8 ? DType::i8 : DType::f32;
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "ids", {.dtype = DType::i32, .rank = 1, .may_be_ragged = true}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "table", {.dtype = dtype, .rank = 2, .storage = Storage::constant}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtype = DType::f32, .rank = 2}));
  const uint32_t rows = s.input(1).dims[0];
  const uint32_t dim = s.input(1).dims[1];
  if (is_i8) {
    ALCOVE_TRY(check_type(s, s.op.inputs[2], "scale", {.dtype = DType::f32, .rank = 1, .storage = Storage::constant}));
    ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "scale", 0, dim));
  }
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, 1));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 1, dim));
  if (s.integer(0) != 0 && s.integer(0) != 1) {
    return failure(Code::op_attribute, Section::program, "embedding_bag: mode %" PRId64 ", allowed are 0 (sum) and 1 (mean)",
                   s.integer(0));
  }
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

Status check_linear(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtype = DType::f32, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "weight",
                        {.dtype = DType::f32, .rank = 2, .storage = Storage::constant, .layout = Layout::panel16}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtype = DType::f32, .rank = 2}));
  const Tensor& weight = s.input(1);
  ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "input", 1, weight.dims[1]));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 0, s.input(0).dims[0]));
  ALCOVE_TRY(check_dimension(s, s.op.outputs[0], "output", 1, weight.dims[0]));
  steps = Checked(s.input(0).dims[0]) * (weight.size_bytes / sizeof(float));
  return {};
}

Status check_elementwise(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtype = DType::f32, .rank = -1}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtype = DType::f32, .rank = -1}));
  ALCOVE_TRY(check_same_shape(s));
  // An exponential and a division take sixteen; relu is charged the same.
  steps = Checked(s.input(0).element_count()) * 16;
  return {};
}

Status check_topk(const Subject& s, Checked& steps) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtype = DType::f32, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "values", {.dtype = DType::f32, .rank = 2}));
  ALCOVE_TRY(check_type(s, s.op.outputs[1], "indices", {.dtype = DType::i32, .rank = 2}));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[0], "input", 0, 1));
  const uint32_t n = s.input(0).dims[1];
  const uint32_t cap = n < kMaxTopk ? n : kMaxTopk;
  if (s.integer(0) < 1 || s.integer(0) > cap) {
    return failure(Code::op_attribute, Section::program, "topk: k is %" PRId64 ", allowed are 1 to %" PRIu32, s.integer(0),
                   cap);
  }
  const uint64_t k = s.op.attributes[0];
  for (uint8_t i = 0; i < 2; ++i) {
    ALCOVE_TRY(check_dimension(s, s.op.outputs[i], i == 0 ? "values" : "indices", 0, 1));
    ALCOVE_TRY(check_dimension(s, s.op.outputs[i], i == 0 ? "values" : "indices", 1, k));
  }
  steps = Checked(n) * k;
  return {};
}

Status check_op(const Subject& s, Checked& steps) {
  switch (s.op.code) {
    case OpCode::ngram_hash:
      return check_ngram_hash(s, steps);
    case OpCode::embedding_bag:
      return check_embedding_bag(s, steps);
    case OpCode::linear:
      return check_linear(s, steps);
    case OpCode::relu:
    case OpCode::softmax:
      return check_elementwise(s, steps);
    case OpCode::topk:
      return check_topk(s, steps);
  }
  return failure(Code::op_unknown, Section::program, "an op without a rule");
}

}  // namespace

Status check_signatures(const Program& program) {
  const std::vector<int32_t> writers = producers(program);
  Checked total = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    Checked steps = 0;
    if (Status status = check_op({program, program.ops[i], writers}, steps); !status.is_ok()) return status.in_op(i);
    total = total + steps;
    if (!total.is_at_most(kMaxRunSteps)) {
      return failure(Code::run_steps, Section::program, "one run takes more than %" PRIu64 " steps", kMaxRunSteps).in_op(i);
    }
  }
  // An input port may be ragged; any other ragged tensor was made by an op whose rule allows it.
  return {};
}

}  // namespace alcove
