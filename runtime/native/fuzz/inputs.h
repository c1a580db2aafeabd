// Makes the inputs that the targets run a program with: sizes and values that the bytes behind it choose, over and over.
#pragma once

#include <cstring>
#include <vector>

#include "core/checked.h"
#include "core/session.h"
#include "core/sizes.h"

namespace alcove::fuzz {

// Larger ones are opened and not run: the time would go into few programs.
inline constexpr uint64_t kMaxArenaBytes = 1ull << 18;
inline constexpr uint64_t kInputsOpBudget = 1ull << 18;

// Bytes in order, and from the start again when they are used up; zeros if there are none.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  [[nodiscard]] bool are_left() const { return at_ < size_; }
  uint8_t byte() { return size_ == 0 ? 0 : data_[at_++ % size_]; }
  size_t below(size_t bound) { return bound == 0 ? 0 : byte() % bound; }
  uint32_t word() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }

  // Small numbers mostly, so that ids often fit, and any bits at all.
  void fill(DType dtype, std::vector<uint8_t>& data) {
    const bool is_small = byte() % 4 != 0;
    for (size_t i = 0; i < data.size(); ++i) {
      const bool is_integer = dtype == DType::i32 || dtype == DType::i64;
      data[i] = is_small && is_integer && i % dtype_bytes(dtype) != 0 ? 0 : byte();
    }
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

[[nodiscard]] inline bool is_small(const Program& program) {
  return program.arena_bytes <= kMaxArenaBytes && program.run_cost <= kInputsOpBudget;
}

// Values of all inputs at sizes within their bounds.
struct Inputs {
  std::vector<std::vector<uint64_t>> dims;
  std::vector<std::vector<uint8_t>> data;
};

inline Inputs make_inputs(const Program& program, Choices& choices) {
  uint32_t sizes[kMaxSymbols] = {};
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const Symbol& symbol = program.symbols[s];
    sizes[s] = static_cast<uint32_t>(symbol.min + choices.word() % (uint64_t{symbol.max} - symbol.min + 1));
  }
  std::vector<int64_t> values(program.expressions.size(), 1);
  (void)evaluate(program, sizes, values.data());
  Inputs inputs;
  for (const Port& port : program.inputs) {
    const Tensor& tensor = program.tensors[port.tensor];
    std::vector<uint64_t> dims(tensor.dims, tensor.dims + tensor.rank);
    for (uint8_t d = 0; d < tensor.rank; ++d) {
      if ((tensor.dynamic_dims >> d & 1) != 0) dims[d] = static_cast<uint64_t>(values[tensor.dims[d]]);
    }
    if (tensor.is_ragged) dims[0] = choices.word() % (dims[0] + 1);
    Checked bytes = tensor.dtype == DType::text ? choices.byte() : dtype_bytes(tensor.dtype);
    for (const uint64_t dim : dims) bytes = bytes * dim;
    // What is larger no session takes; it compares before it reads.
    std::vector<uint8_t> data(bytes.is_at_most(kMaxArenaBytes) ? bytes.value() : 1);
    if (!bytes.is_at_most(kMaxArenaBytes)) dims.assign(dims.size(), UINT64_MAX);
    choices.fill(tensor.dtype, data);
    inputs.dims.push_back(std::move(dims));
    inputs.data.push_back(std::move(data));
  }
  return inputs;
}

// Sets all inputs and runs; appends the bytes of all outputs.
inline Status run_once(Session& session, const Inputs& inputs, std::vector<uint8_t>& answer) {
  const Program& program = session.described();
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    if (program.tensors[program.inputs[port].tensor].dtype == DType::text) continue;
    ALCOVE_TRY(session.set_dims(port, inputs.dims[port].data(), inputs.dims[port].size()));
  }
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    const DType dtype = program.tensors[program.inputs[port].tensor].dtype;
    const std::vector<uint8_t>& data = inputs.data[port];
    if (dtype == DType::text) {
      ALCOVE_TRY(session.set_text(port, data.data(), data.size()));
    } else {
      ALCOVE_TRY(session.set_tensor(port, dtype, inputs.dims[port].data(), inputs.dims[port].size(), data.data()));
    }
  }
  ALCOVE_TRY(session.run());
  for (size_t port = 0; port < program.outputs.size(); ++port) {
    const Tensor& tensor = session.program().tensors[program.outputs[port].tensor];
    uint64_t bytes = dtype_bytes(tensor.dtype);
    for (uint8_t d = 0; d < tensor.rank; ++d) bytes *= d == 0 ? session.output_extent(port) : tensor.dims[d];
    answer.insert(answer.end(), session.output(port), session.output(port) + bytes);
  }
  return {};
}

// Runs a model as it is planned, with every tensor in a block of its own, and with threads that share out every op that can be: all
// must answer the same.  Some runs each, of any methods, for states.
inline void run_all_ways(const std::shared_ptr<const Model>& model, Choices& choices) {
  const std::vector<Method>& methods = model->methods().all;
  if (model->methods().states_bytes > kMaxArenaBytes) return;
  for (const Method& method : methods) {
    if (!is_small(method.program)) return;
  }
  const SessionOptions threaded = {.threads = 2 + static_cast<int64_t>(choices.below(3)), .part_work = 1};
  auto planned = Session::create(model);
  auto apart = Session::create_apart(model);
  if (planned.is_ok() != apart.is_ok()) __builtin_trap();
  if (!planned.is_ok()) return;
  auto together = Session::create(model, threaded);
  for (int round = 0; round < 3; ++round) {
    const size_t method = choices.below(static_cast<uint32_t>(methods.size()));
    const Inputs inputs = make_inputs(methods[method].program, choices);
    std::vector<uint8_t> answer;
    Status status = planned.value()->select(method);
    if (status.is_ok()) status = run_once(*planned.value(), inputs, answer);
    for (auto* other : {&apart, &together}) {
      if (!other->is_ok()) continue;  // the system gave no thread
      std::vector<uint8_t> same;
      Status again = other->value()->select(method);
      if (again.is_ok()) again = run_once(*other->value(), inputs, same);
      if (again.code != status.code || answer != same) __builtin_trap();
    }
  }
}

}  // namespace alcove::fuzz
