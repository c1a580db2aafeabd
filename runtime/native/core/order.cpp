// Passes 3 and 5: who writes and reads which tensor, and what the caller sees.
#include <algorithm>
#include <cinttypes>

#include "core/ops/ops.h"
#include "core/verify.h"

namespace alcove {

namespace {

enum class Definition : uint8_t { none, constant, state, input, op };

const char* as_text(Definition definition) {
  switch (definition) {
    case Definition::none: return "nothing";
    case Definition::constant: return "the file";
    case Definition::state: return "the run before";
    case Definition::input: return "the caller";
    case Definition::op: return "an op";
  }
  return "";
}

Status check_names(const std::vector<Port>& ports, const char* what) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name.empty()) return failure(Code::port_name, Section::program, "%s %zu has no name", what, i);
    for (size_t j = 0; j < i; ++j) {
      if (ports[i].name == ports[j].name) {
        return failure(Code::port_name, Section::program, "%ss %zu and %zu have the same name", what, j, i);
      }
    }
  }
  return {};
}

bool has_shape_of(const Tensor& one, const Tensor& other) {
  if (one.dtype != other.dtype || one.rank != other.rank || one.dynamic_dims != 0 || other.dynamic_dims != 0)
    return false;
  return std::equal(std::begin(one.dims), std::end(one.dims), std::begin(other.dims));
}

// Rows are written of a state that is its own update, and come from elsewhere.
Status check_written_rows(const Program& program) {
  std::vector<bool> is_in_place(program.tensors.size(), false);
  for (const State& state : program.states) is_in_place[state.tensor] = state.update == state.tensor;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.code != OpCode::write_rows) continue;
    const uint32_t state = op.inputs[0];
    if (!is_in_place[state] || op.inputs[1] == state || op.inputs[2] == state) {
      return failure(Code::state_tensor, Section::program,
                     "write_rows writes a state that is its own update, and reads other tensors")
          .in_op(i)
          .in_tensor(state);
    }
  }
  return {};
}

// Every tensor of storage state has one record, with a constant and an arena tensor of its type and shape.
Status check_states(const Program& program) {
  std::vector<bool> is_state(program.tensors.size(), false);
  for (const State& state : program.states) {
    const Tensor& tensor = program.tensors[state.tensor];
    const Tensor& initial = program.tensors[state.initial];
    const Tensor& update = program.tensors[state.update];
    if (tensor.storage != Storage::state || is_state[state.tensor]) {
      return failure(Code::state_tensor, Section::program, "it is no state, or two records have it")
          .in_tensor(state.tensor);
    }
    is_state[state.tensor] = true;
    if (initial.storage != Storage::constant || initial.layout != Layout::row_major || !has_shape_of(initial, tensor)) {
      return failure(Code::state_tensor, Section::program, "a state begins as a constant of its type and shape")
          .in_tensor(state.initial);
    }
    if (state.update == state.tensor) continue;  // operators write rows of it in place, or nothing changes it
    if (update.storage != Storage::arena || update.is_ragged || !has_shape_of(update, tensor)) {
      return failure(Code::state_tensor, Section::program,
                     "a state becomes an arena tensor of its type and shape, or is its own update")
          .in_tensor(state.update);
    }
  }
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].storage == Storage::state && !is_state[t]) {
      return failure(Code::state_tensor, Section::program, "no record says what this state begins as").in_tensor(t);
    }
  }
  return {};
}

}  // namespace

Status check_order(const Program& program) {
  ALCOVE_TRY(check_states(program));
  ALCOVE_TRY(check_written_rows(program));
  const size_t count = program.tensors.size();
  std::vector<Definition> defined(count, Definition::none);
  std::vector<bool> is_read(count, false);
  for (size_t t = 0; t < count; ++t) {
    if (program.tensors[t].storage == Storage::constant) defined[t] = Definition::constant;
    if (program.tensors[t].storage == Storage::state) defined[t] = Definition::state;
  }
  for (const State& state : program.states) is_read[state.initial] = true;
  for (const Port& port : program.inputs) {
    if (defined[port.tensor] != Definition::none) {
      return failure(Code::tensor_redefined, Section::program, "an input is already given by %s",
                     as_text(defined[port.tensor]))
          .in_tensor(port.tensor);
    }
    defined[port.tensor] = Definition::input;
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (uint8_t k = 0; k < op.input_count; ++k) {
      if (defined[op.inputs[k]] == Definition::none) {
        return failure(Code::tensor_undefined, Section::program, "input %u is read before anything wrote it", k)
            .in_op(i)
            .in_tensor(op.inputs[k]);
      }
      is_read[op.inputs[k]] = true;
    }
    for (uint8_t k = 0; k < op.output_count; ++k) {
      Definition& definition = defined[op.outputs[k]];
      if (definition != Definition::none) {
        return failure(Code::tensor_redefined, Section::program, "output %u was already written by %s", k,
                       as_text(definition))
            .in_op(i)
            .in_tensor(op.outputs[k]);
      }
      definition = Definition::op;
    }
  }
  for (size_t t = 0; t < count; ++t) {
    const bool is_kept = program.tensors[t].storage != Storage::arena;
    if (is_kept ? !is_read[t] : defined[t] == Definition::none) {
      return failure(Code::tensor_unused, Section::program,
                     is_kept ? "nothing reads this tensor" : "nothing writes this tensor")
          .in_tensor(t);
    }
    if (program.tensors[t].dtype == DType::text && defined[t] != Definition::input) {
      return failure(Code::tensor_dtype, Section::program, "only an input can be text").in_tensor(t);
    }
  }
  return {};
}

std::vector<int32_t> producers(const Program& program) {
  std::vector<int32_t> result(program.tensors.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (uint8_t k = 0; k < op.output_count; ++k) result[op.outputs[k]] = static_cast<int32_t>(i);
  }
  return result;
}

namespace {

// What threads leave in scratch depends on how many there are, and what undoes a write of rows is the session's: nothing may
// see either.
Status check_scratch_unseen(const Program& program) {
  std::vector<bool> is_scratch(program.tensors.size());
  for (const Op& op : program.ops) {
    if (ops::splits_scratch(op.code)) is_scratch[op.outputs[1]] = true;
    if (op.code == OpCode::write_rows) is_scratch[op.outputs[0]] = true;
  }
  const auto seen = [](Code code, const char* by, uint32_t tensor) {
    return failure(code, Section::program, "%s has the scratch of an op", by).in_tensor(tensor);
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (uint8_t k = 0; k < op.input_count; ++k) {
      if (is_scratch[op.inputs[k]]) return seen(Code::op_type, "an input", op.inputs[k]).in_op(i);
    }
  }
  for (const Port& port : program.outputs) {
    if (is_scratch[port.tensor]) return seen(Code::port_tensor, "an output", port.tensor);
  }
  for (const State& state : program.states) {
    if (is_scratch[state.update]) return seen(Code::state_tensor, "a state", state.update);
  }
  return {};
}

}  // namespace

Status check_ports(const Program& program) {
  ALCOVE_TRY(check_scratch_unseen(program));
  ALCOVE_TRY(check_names(program.inputs, "input"));
  ALCOVE_TRY(check_names(program.outputs, "output"));
  if (program.outputs.empty()) return failure(Code::port_tensor, Section::program, "there is no output");
  for (const Port& port : program.inputs) {
    if (port.label_count != 0) {
      return failure(Code::port_labels, Section::program, "an input has labels").in_tensor(port.tensor);
    }
  }
  const std::vector<int32_t> writers = producers(program);
  for (const Port& port : program.outputs) {
    const Tensor& tensor = program.tensors[port.tensor];
    if (tensor.storage != Storage::arena || tensor.dtype == DType::text) {
      return failure(Code::port_tensor, Section::program, "an output must be an arena tensor and no text")
          .in_tensor(port.tensor);
    }
    if (port.label_count == 0) continue;
    const int32_t writer = writers[port.tensor];
    const Op* op = writer < 0 ? nullptr : &program.ops[static_cast<size_t>(writer)];
    if (op == nullptr || op->code != OpCode::topk || op->outputs[1] != port.tensor) {
      return failure(Code::port_labels, Section::program, "labels are for the indices of a topk")
          .in_tensor(port.tensor);
    }
    const Tensor& scores = program.tensors[op->inputs[0]];
    const uint32_t candidates = scores.rank > 0 ? scores.dims[scores.rank - 1] : 1;
    const bool is_dynamic = scores.rank > 0 && (scores.dynamic_dims >> (scores.rank - 1) & 1) != 0;
    if (is_dynamic || port.label_count != candidates) {
      return failure(Code::port_labels, Section::program, "%" PRIu32 " labels for %" PRIu32 " candidates",
                     port.label_count, candidates)
          .in_tensor(port.tensor);
    }
  }
  return {};
}

}  // namespace alcove
