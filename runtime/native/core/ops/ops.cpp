// Pass 4 of the verifier, the table of operators, and what rules are made of.
#include "core/ops/ops.h"

#include <cmath>

#include "core/verify.h"

// The lines of the operators that this build holds: all, or those that tools/selective.py has chosen.
#if !defined(ALCOVE_CHOSEN)
#define ALCOVE_CHOSEN "kernels/manifest.inc"
#endif

namespace alcove {

// Vector code does several in the time of anything else.
static constexpr uint64_t kProductsPerOperation = 4;

namespace ops {

namespace {

struct Rules {
  CheckRule* check = nullptr;
  RunRule* run = nullptr;
};

constexpr size_t kMostCode = [] {
  size_t most = 0;
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) most = code > most ? code : most;
#include ALCOVE_CHOSEN
  return most;
}();
static_assert(kMostCode <= kMaxOpCode);

struct RuleTable {
  Rules rules[kMostCode + 1];
};

constexpr RuleTable make_table() {
  RuleTable table{};
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) \
  table.rules[code] = {&check_##name, &run_##name};
#include ALCOVE_CHOSEN
  return table;
}

constexpr RuleTable kRules = make_table();

}  // namespace

CheckRule* check_rule(OpCode code) noexcept {
  const auto index = static_cast<uint16_t>(code);
  return index <= kMostCode ? kRules.rules[index].check : nullptr;
}
bool reads_halves(OpCode code, size_t input) noexcept {
  switch (code) {
    case OpCode::index_select: return input == 0;
    case OpCode::embedding_panels:
    case OpCode::linear: return input == 1;
    default: return false;
  }
}

bool splits_scratch(OpCode code) noexcept {
  switch (code) {
    case OpCode::attention:
    case OpCode::cached_attention:
    case OpCode::attention_i8:
    case OpCode::conv2d:
    case OpCode::conv2d_i8:
    case OpCode::fft:
    case OpCode::irfft:
    case OpCode::linear_qd8_qb4w:
    case OpCode::linear_qd8_qc8w:
    case OpCode::pointwise_conv2d:
    case OpCode::rfft:
    case OpCode::separable_conv2d:
    case OpCode::squeeze_excite_conv2d:
    case OpCode::winograd_conv2d: return true;
    default: return false;
  }
}
bool is_gemm(OpCode code) noexcept {
  switch (code) {
    case OpCode::attention:
    case OpCode::cached_attention:
    case OpCode::attention_i8:
    case OpCode::conv2d:
    case OpCode::conv2d_i8:
    case OpCode::conv_transpose2d:
    case OpCode::gru:
    case OpCode::linear:
    case OpCode::linear_qd8_qb4w:
    case OpCode::linear_qd8_qc8w:
    case OpCode::linear_i8:
    case OpCode::linear_f32_qb4w:
    case OpCode::linear_f32_qc8w:
    case OpCode::lstm:
    case OpCode::matmul:
    case OpCode::pointwise_conv2d:
    case OpCode::rnn:
    case OpCode::separable_conv2d:
    case OpCode::squeeze_excite_conv2d:
    case OpCode::winograd_conv2d: return true;
    default: return false;
  }
}
bool polls(OpCode code) noexcept {
  return is_gemm(code) || code == OpCode::depthwise_conv2d || code == OpCode::depthwise_conv2d_i8 ||
         code == OpCode::as_strided_copy || code == OpCode::fft || code == OpCode::rfft || code == OpCode::irfft ||
         code == OpCode::tokenize || code == OpCode::ctc_beam || code == OpCode::non_maximum_suppression;
}
RunRule* run_rule(OpCode code) noexcept { return kRules.rules[static_cast<uint16_t>(code)].run; }

Status Call::bad_index(uint8_t i, uint64_t position, int64_t value, int64_t low, int64_t bound) const noexcept {
  return name_input(i, failure(Code::input_index, Section::file,
                               "%s: index %" PRIu64 " is %" PRId64 ", allowed are %" PRId64 " to %" PRId64,
                               op_info(static_cast<uint16_t>(op.code))->name(), position, value, low, bound - 1));
}

Status Call::name_input(uint8_t i, Status status) const noexcept {
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    if (program.inputs[port].tensor == op.inputs[i]) status.at_port(port);
  }
  return status;
}

Status check_type(const Subject& s, uint32_t index, const char* role, const Expected& e) {
  const Tensor& t = s.program.tensors[index];
  if ((e.dtypes >> static_cast<int>(t.dtype) & 1) == 0) {
    return failure(Code::op_type, Section::program, "%s: %s can't be %s", s.name(), role, dtype_name(t.dtype))
        .in_tensor(index);
  }
  if (e.is_constant && t.storage != Storage::constant) {
    return failure(Code::op_type, Section::program, "%s: %s must be in the weights", s.name(), role).in_tensor(index);
  }
  if (t.layout != e.layout) {
    return failure(Code::op_type, Section::program, "%s: %s has the wrong layout", s.name(), role).in_tensor(index);
  }
  if (t.is_ragged && !e.may_be_ragged) {
    return failure(Code::op_type, Section::program, "%s: %s can't be ragged", s.name(), role).in_tensor(index);
  }
  if (e.rank != kAnyRank && t.rank != e.rank) {
    return failure(Code::op_shape, Section::program, "%s: %s has rank %u, expected %d", s.name(), role, t.rank, e.rank)
        .in_tensor(index);
  }
  return {};
}

Status check_dimension(const Subject& s, uint32_t index, const char* role, uint32_t d, uint64_t expected) {
  const Tensor& t = s.program.tensors[index];
  if (t.dims[d] != expected) {
    return failure(Code::op_shape, Section::program,
                   "%s: dimension %" PRIu32 " of %s is %" PRIu32 ", expected %" PRIu64, s.name(), d, role, t.dims[d],
                   expected)
        .in_tensor(index);
  }
  return {};
}

Status check_shape(const Subject& s, uint32_t index, const char* role, const uint64_t* dims, size_t rank) {
  const Tensor& t = s.program.tensors[index];
  if (t.rank != rank) {
    return failure(Code::op_shape, Section::program, "%s: %s has rank %u, expected %zu", s.name(), role, t.rank, rank)
        .in_tensor(index);
  }
  for (uint8_t d = 0; d < t.rank; ++d) ALCOVE_TRY(check_dimension(s, index, role, d, dims[d]));
  return {};
}

Status check_like_input(const Subject& s) {
  const Tensor& in = s.input(0);
  if (s.output(0).dtype != in.dtype) {
    return failure(Code::op_type, Section::program, "%s: the output is %s, the input %s", s.name(),
                   dtype_name(s.output(0).dtype), dtype_name(in.dtype))
        .in_tensor(s.op.outputs[0]);
  }
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  return check_shape(s, s.op.outputs[0], "output", dims, in.rank);
}

Status check_integer(const Subject& s, Integer attribute, const char* role, int64_t low, int64_t high) {
  if (s.integer(attribute) >= low && s.integer(attribute) <= high) return {};
  return failure(Code::op_attribute, Section::program, "%s: %s is %" PRId64 ", allowed are %" PRId64 " to %" PRId64,
                 s.name(), role, s.integer(attribute), low, high);
}

Status check_finite(const Subject& s, Real attribute, const char* role) {
  if (std::isfinite(s.real(attribute))) return {};
  return failure(Code::op_attribute, Section::program, "%s: %s must be finite", s.name(), role);
}

Status check_activation(const Subject& s, ActivationAttributes attributes, Activation most) {
  ALCOVE_TRY(check_integer(s, attributes.function, "activation", 0, static_cast<int64_t>(most)));
  if (s.real(attributes.low) <= s.real(attributes.high)) return {};
  return failure(Code::op_attribute, Section::program, "%s: the clamp's bounds are not in order", s.name());
}

Status check_scratch(const Subject& s, uint8_t i, const Checked& bytes) {
  ALCOVE_TRY(check_type(s, s.op.outputs[i], "scratch", {.dtypes = make_set({DType::u8}), .rank = 1}));
  if (bytes.is_at_most(s.output(i).dims[0])) return {};
  return failure(Code::op_shape, Section::program, "%s: its scratch has %" PRIu32 " bytes, too few", s.name(),
                 s.output(i).dims[0])
      .in_tensor(s.op.outputs[i]);
}

Status check_input_count(const Subject& s, uint64_t expected) {
  if (s.op.input_count == expected) return {};
  return failure(Code::op_arity, Section::program, "%s: %u inputs, its attributes ask for %" PRIu64, s.name(),
                 s.op.input_count, expected);
}

Checked pixel_cost(const Tensor& image) { return Checked(image.dims[0]) * image.dims[1] * image.dims[2] * 32; }

Checked elements(const Tensor& tensor) {
  Checked count = 1;
  for (uint8_t d = 0; d < tensor.rank; ++d) count = count * tensor.dims[d];
  return count;
}

}  // namespace ops

Status check_signatures(const Program& program, const std::vector<int32_t>& writers, uint64_t& cost) {
  Checked total = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    ops::CheckRule* const check = ops::check_rule(op.code);
    if (check == nullptr) {
      return failure(Code::op_missing, Section::program, "this build of the runtime was made without the operator %s",
                     op_info(static_cast<uint16_t>(op.code))->name())
          .in_op(i);
    }
    Checked of_op = 0;
    if (Status status = check({program, op, writers}, of_op); !status.is_ok()) return status.in_op(i);
    if (!ops::polls(op.code) && !of_op.is_at_most(kUnstoppableOpBudget)) {
      return failure(Code::op_budget, Section::program,
                     "%s takes more than %" PRIu64 " operations, and can't be stopped within",
                     op_info(static_cast<uint16_t>(op.code))->name(), kUnstoppableOpBudget)
          .in_op(i);
    }
    if (ops::is_gemm(op.code) && of_op.is_at_most(UINT64_MAX)) of_op = of_op.value() / kProductsPerOperation;
    total = total + of_op;
    if (!total.is_at_most(kOpBudget)) {
      return failure(Code::op_budget, Section::program, "one run takes more than %" PRIu64 " operations", kOpBudget)
          .in_op(i);
    }
  }
  cost = total.value();
  // An input port may be ragged; any other ragged tensor was made by an op whose rule allows it.
  return {};
}

}  // namespace alcove
