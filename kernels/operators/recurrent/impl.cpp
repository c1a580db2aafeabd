// The recurrent layers, compiled once for each instruction set: the gates, and the steps around them.
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/math/f32.h"
#include "kernels/operators/recurrent/recurrent.h"
#include "kernels/requantize.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {
namespace {

void multiply(const RecurrentF32& a, const LinearF32& product) noexcept {
  if (a.dynamic == nullptr) return a.linear(product);
  const auto* panels = reinterpret_cast<const int8_t*>(product.panels);
  const size_t count = (product.n + kPanelOutputs - 1) / kPanelOutputs;
  const auto* bias = reinterpret_cast<const float*>(panels + count * panel_bytes_i8(product.k));
  const size_t scratch_bytes = linear_qd8_qc8w_scratch_bytes(product.k);
  a.dynamic({product.input, panels, bias, product.output, a.quantized, scratch_bytes, a.integers, product.m, product.n,
             product.k});
}

// One row of gates: `a` from the input, `b` from the state.
void rnn_row(const float* __restrict a, const float* __restrict b, float* __restrict next, size_t hidden,
             bool is_relu) noexcept {
  if (is_relu) {
    for (size_t j = 0; j < hidden; ++j) {
      const float sum = canonical(a[j] + b[j]);
      next[j] = sum < 0.0f ? 0.0f : sum;
    }
    return;
  }
  for (size_t j = 0; j < hidden; ++j) next[j] = canonical(tanh_f32(a[j] + b[j]));
}

void gru_row(const float* __restrict a, const float* __restrict b, const float* __restrict state,
             float* __restrict next, size_t hidden) noexcept {
  for (size_t j = 0; j < hidden; ++j) {
    const float r = sigmoid_f32(a[j] + b[j]);
    const float z = sigmoid_f32(a[hidden + j] + b[hidden + j]);
    const float n = tanh_f32(fma(r, b[2 * hidden + j], a[2 * hidden + j]));
    next[j] = canonical(fma(state[j] - n, z, n));
  }
}

void lstm_row(const float* __restrict a, const float* __restrict b, float* __restrict cell, float* __restrict next,
              size_t hidden) noexcept {
  for (size_t j = 0; j < hidden; ++j) {
    const float i = sigmoid_f32(a[j] + b[j]);
    const float f = sigmoid_f32(a[hidden + j] + b[hidden + j]);
    const float g = tanh_f32(a[2 * hidden + j] + b[2 * hidden + j]);
    const float o = sigmoid_f32(a[3 * hidden + j] + b[3 * hidden + j]);
    const float c = fma(f, cell[j], i * g);
    cell[j] = canonical(c);
    next[j] = canonical(o * tanh_f32(c));
  }
}

// One step of all rows: `from_input` are its gates, `state` and `next` the states before and after.
template <Recurrence kKind>
void recurrent_step(const RecurrentF32& a, const float* from_input, float* from_state, float* unprojected,
                    const float* state, float* next) noexcept {
  const size_t columns = recurrent_gates(kKind) * a.hidden;
  multiply(a, {state, a.state_panels, from_state, a.batch, columns, a.width});
  float* hidden = a.projection_panels != nullptr ? unprojected : next;
  for (size_t row = 0; row < a.batch; ++row) {
    const float* x = from_input + row * columns;
    const float* h = from_state + row * columns;
    float* y = hidden + row * a.hidden;
    if constexpr (kKind == Recurrence::gru) {
      gru_row(x, h, state + row * a.hidden, y, a.hidden);
    } else if constexpr (kKind == Recurrence::lstm) {
      lstm_row(x, h, a.last_cell + row * a.hidden, y, a.hidden);
    } else {
      rnn_row(x, h, y, a.hidden, a.is_relu);
    }
  }
  if (a.projection_panels != nullptr) {
    multiply(a, {unprojected, a.projection_panels, next, a.batch, a.width, a.hidden});
  }
}

template <Recurrence kKind>
void recurrent_f32(const RecurrentF32& a) noexcept {
  const size_t columns = recurrent_gates(kKind) * a.hidden;
  const size_t block = recurrent_block_steps(a.steps, a.batch);
  float* from_inputs = a.scratch;
  float* from_state = from_inputs + block * a.batch * columns;
  float* unprojected = from_state + a.batch * columns;
  if constexpr (kKind == Recurrence::lstm) std::memcpy(a.last_cell, a.cell, a.batch * a.hidden * sizeof(float));
  const float* state = a.state;
  for (size_t done = 0; done < a.steps; done += block) {
    const size_t count = a.steps - done < block ? a.steps - done : block;
    const size_t first = a.is_reversed ? a.steps - done - count : done;
    multiply(
        a, {a.input + first * a.batch * a.features, a.input_panels, from_inputs, count * a.batch, columns, a.features});
    for (size_t i = 0; i < count; ++i) {
      const size_t at = a.is_reversed ? count - 1 - i : i;
      float* next = a.output + (first + at) * a.batch * a.width;
      recurrent_step<kKind>(a, from_inputs + at * a.batch * columns, from_state, unprojected, state, next);
      state = next;
    }
  }
  std::memcpy(a.last_state, state, a.batch * a.width * sizeof(float));
}

}  // namespace

void ALCOVE_PER_ISA(rnn_f32)(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::rnn>(a); }
void ALCOVE_PER_ISA(gru_f32)(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::gru>(a); }
void ALCOVE_PER_ISA(lstm_f32)(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::lstm>(a); }

}  // namespace alcove::kernels
