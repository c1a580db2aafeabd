// Passes 3 and 5: who writes and reads which tensor, and what the caller sees.
#include <cinttypes>

#include "core/verify.h"

namespace alcove {

namespace {

enum class Definition : uint8_t { none, constant, input, op };

const char* as_text(Definition definition) {
  switch (definition) {
    case Definition::none:
      return "nothing";
    case Definition::constant:
      return "the file";
    case Definition::input:
      return "the caller";
    case Definition::op:
      return "an op";
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

}  // namespace

Status check_order(const Program& program) {
  const size_t count = program.tensors.size();
  std::vector<Definition> defined(count, Definition::none);
  std::vector<bool> is_read(count, false);
  for (size_t t = 0; t < count; ++t) {
    if (program.tensors[t].storage == Storage::constant) defined[t] = Definition::constant;
  }
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
    const bool is_constant = program.tensors[t].storage == Storage::constant;
    if (is_constant ? !is_read[t] : defined[t] == Definition::none) {
      return failure(Code::tensor_unused, Section::program, is_constant ? "no op reads this constant" : "nothing writes this tensor")
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

Status check_ports(const Program& program) {
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
      return failure(Code::port_labels, Section::program, "labels are for the indices of a topk").in_tensor(port.tensor);
    }
    const Tensor& scores = program.tensors[op->inputs[0]];
    const uint32_t candidates = scores.rank > 0 ? scores.dims[scores.rank - 1] : 1;
    if (port.label_count != candidates) {
      return failure(Code::port_labels, Section::program, "%" PRIu32 " labels for %" PRIu32 " candidates", port.label_count,
                     candidates)
          .in_tensor(port.tensor);
    }
  }
  return {};
}

}  // namespace alcove
