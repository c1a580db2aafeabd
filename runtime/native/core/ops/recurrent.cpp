// Recurrent layers: rnn, gru, lstm, one direction over time each.
#include <algorithm>

#include "core/ops/gemm.h"
#include "core/ops/quantized.h"
#include "kernels/requantize.h"

namespace alcove::ops {

namespace {

using kernels::Recurrence;

// Where the tensors of a layer stand; an lstm has a cell besides its state, and may have a projection.
struct Slots {
  uint8_t state, cell, input_weight, state_weight, projection;  // inputs
  uint8_t last_state, last_cell, scratch;                       // outputs
};

constexpr Slots list_slots(Recurrence kind) noexcept {
  return kind == Recurrence::lstm ? Slots{1, 2, 3, 4, 5, 1, 2, 3} : Slots{1, 0, 2, 3, 0, 1, 0, 2};
}

constexpr Integer kIsReversed{{OpCode::rnn, OpCode::gru, OpCode::lstm}, "is_reversed"}, kIsRelu{OpCode::rnn, "is_relu"};
constexpr uint64_t kBiasBytes = kernels::kPanelOutputs * sizeof(float);

// The weights of a layer are all float32 panels, or all packed int8 with their biases in the panels, or all packed int8 of
// rank 1 with their biases behind: then rows are quantized as they come.
enum class Weights { f32, int8, dynamic_int8 };

Weights classify_weights(const Tensor& input_weight) noexcept {
  if (input_weight.dtype != DType::i8) return Weights::f32;
  return input_weight.rank == 1 ? Weights::dynamic_int8 : Weights::int8;
}

Status check_weight(const Subject& s, const Slots& slots, uint8_t input, const char* role, uint64_t n, uint64_t k) {
  const Weights weights = classify_weights(s.input(slots.input_weight));
  if (weights == Weights::f32) return check_panels(s, s.op.inputs[input], role, n, k);
  const uint64_t panels = (n + 15) / 16;
  if (weights == Weights::int8) {
    ALCOVE_TRY(
        check_type(s, s.op.inputs[input], role, {.dtypes = make_set({DType::i8}), .rank = 2, .is_constant = true}));
    const uint64_t dims[2] = {panels, kernels::panel_bytes_i8(k)};
    return check_shape(s, s.op.inputs[input], role, dims, 2);
  }
  ALCOVE_TRY(
      check_type(s, s.op.inputs[input], role, {.dtypes = make_set({DType::i8}), .rank = 1, .is_constant = true}));
  ALCOVE_TRY(check_gemm_i8(s, k));
  const uint64_t bytes = panels * (kernels::panel_bytes_i8(k) + kBiasBytes);
  return check_shape(s, s.op.inputs[input], role, &bytes, 1);
}

uint64_t find_longest_row(uint64_t features, uint64_t width, uint64_t hidden) noexcept {
  return std::max({features, width, hidden});
}

// Products of one row with a weight; int8 takes twice as long.
Checked weight_cost(const Tensor& weight) noexcept {
  return classify_weights(weight) == Weights::f32 ? Checked(weight.size_bytes / sizeof(float))
                                                  : Checked(weight.size_bytes) * 2;
}

Status check_recurrent(const Subject& s, Recurrence kind, Checked& cost) {
  const Slots slots = list_slots(kind);
  const uint64_t gates = kernels::recurrent_gates(kind);
  const bool is_projected = kind == Recurrence::lstm && s.op.input_count > slots.projection;
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat, .rank = 3}));
  ALCOVE_TRY(check_type(s, s.op.inputs[slots.state], "state", {.dtypes = kFloat, .rank = 2}));
  const Tensor& in = s.input(0);
  const uint64_t length = in.dims[0], batch = in.dims[1], features = in.dims[2];
  const uint64_t width = s.input(slots.state).dims[1];
  ALCOVE_TRY(check_dimension(s, s.op.inputs[slots.state], "state", 0, batch));
  uint64_t hidden = width;
  if (kind == Recurrence::lstm) {
    ALCOVE_TRY(check_type(s, s.op.inputs[slots.cell], "cell", {.dtypes = kFloat, .rank = 2}));
    ALCOVE_TRY(check_dimension(s, s.op.inputs[slots.cell], "cell", 0, batch));
    if (is_projected) {
      hidden = s.input(slots.cell).dims[1];
      ALCOVE_TRY(check_weight(s, slots, slots.projection, "projection", width, hidden));
    }
    const uint64_t cells[2] = {batch, hidden};
    ALCOVE_TRY(check_shape(s, s.op.inputs[slots.cell], "cell", cells, 2));
    ALCOVE_TRY(check_type(s, s.op.outputs[slots.last_cell], "last cell", {.dtypes = kFloat}));
    ALCOVE_TRY(check_shape(s, s.op.outputs[slots.last_cell], "last cell", cells, 2));
  }
  ALCOVE_TRY(check_weight(s, slots, slots.input_weight, "input weight", gates * hidden, features));
  ALCOVE_TRY(check_weight(s, slots, slots.state_weight, "state weight", gates * hidden, width));
  const uint64_t dims[3] = {length, batch, width};
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 3));
  ALCOVE_TRY(check_type(s, s.op.outputs[slots.last_state], "last state", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[slots.last_state], "last state", dims + 1, 2));
  ALCOVE_TRY(check_integer(s, kIsReversed, "is_reversed", 0, 1));
  if (kind == Recurrence::rnn) ALCOVE_TRY(check_integer(s, kIsRelu, "is_relu", 0, 1));
  Checked scratch =
      kernels::recurrent_scratch_floats<Checked>(kind, length, batch, hidden, is_projected) * sizeof(float);
  if (classify_weights(s.input(slots.input_weight)) == Weights::dynamic_int8) {
    scratch = scratch + kernels::linear_qd8_qc8w_scratch_bytes(find_longest_row(features, width, hidden));
  }
  ALCOVE_TRY(check_scratch(s, slots.scratch, scratch));
  // The weights once a row, and 32 for each gate's exponential and division.
  Checked per_row = weight_cost(s.input(slots.input_weight)) + weight_cost(s.input(slots.state_weight)) +
                    Checked(hidden) * 32 * (gates + 1);
  if (is_projected) per_row = per_row + weight_cost(s.input(slots.projection));
  cost = Checked(length) * batch * per_row;
  return {};
}

kernels::RecurrentF32 read_arguments(const Call& c, Recurrence kind) noexcept {
  const Slots slots = list_slots(kind);
  const Tensor& in = c.input(0);
  kernels::RecurrentF32 args{};
  const Weights weights = classify_weights(c.input(slots.input_weight));
  args.linear = weights == Weights::int8 ? c.kernels.linear_f32_qc8w_panels : c.kernels.linear_f32;
  args.input = c.in<float>(0);
  args.state = c.in<float>(slots.state);
  args.input_panels = c.in<float>(slots.input_weight);
  args.state_panels = c.in<float>(slots.state_weight);
  args.output = c.out<float>(0);
  args.last_state = c.out<float>(slots.last_state);
  args.scratch = c.out<float>(slots.scratch);
  args.steps = in.dims[0];
  args.batch = in.dims[1];
  args.features = in.dims[2];
  args.width = c.input(slots.state).dims[1];
  args.hidden = args.width;
  args.is_reversed = c.integer(kIsReversed) == 1;
  if (kind == Recurrence::lstm) {
    args.cell = c.in<float>(slots.cell);
    args.last_cell = c.out<float>(slots.last_cell);
    args.hidden = c.input(slots.cell).dims[1];
    if (c.op.input_count > slots.projection) args.projection_panels = c.in<float>(slots.projection);
  }
  if (weights == Weights::dynamic_int8) {
    args.dynamic = c.kernels.linear_qd8_qc8w_f32;
    args.integers = c.kernels.linear_i8_i8;
    const bool is_projected = args.projection_panels != nullptr;
    args.quantized =
        args.scratch + kernels::recurrent_scratch_floats(kind, args.steps, args.batch, args.hidden, is_projected);
  }
  return args;
}

}  // namespace

Status check_rnn(const Subject& s, Checked& cost) { return check_recurrent(s, Recurrence::rnn, cost); }
Status check_gru(const Subject& s, Checked& cost) { return check_recurrent(s, Recurrence::gru, cost); }
Status check_lstm(const Subject& s, Checked& cost) { return check_recurrent(s, Recurrence::lstm, cost); }

Status run_rnn(const Call& c) noexcept {
  kernels::RecurrentF32 args = read_arguments(c, Recurrence::rnn);
  args.is_relu = c.integer(kIsRelu) == 1;
  c.kernels.rnn_f32(args);
  return {};
}

Status run_gru(const Call& c) noexcept {
  c.kernels.gru_f32(read_arguments(c, Recurrence::gru));
  return {};
}

Status run_lstm(const Call& c) noexcept {
  c.kernels.lstm_f32(read_arguments(c, Recurrence::lstm));
  return {};
}

}  // namespace alcove::ops
