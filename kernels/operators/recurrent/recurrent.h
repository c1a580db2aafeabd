// Recurrent layers in one direction over time, as torch.nn.RNN, GRU and LSTM compute them.  With steps t in order, or from
// the last to the first if it is reversed, x = input[t], h and c the states before the step:
//   a = linear(x, input_panels), b = linear(h, state_panels), each of G gates of `hidden` columns; s = a + b
//   rnn   G = 1   h' = tanh(s), or +0 if s < 0 and else s (relu; NaN stays)
//   gru   G = 3   r = sigmoid(s0), z = sigmoid(s1), n = tanh(fma(r, b2, a2)), h' = fma(h - n, z, n)
//   lstm  G = 4   c' = fma(sigmoid(s1), c, sigmoid(s0) * tanh(s2)), h' = sigmoid(s3) * tanh(c')
//                 with a projection: h' = linear(that, projection_panels), and states have its `width` columns
// linear is that of the weights: linear_f32, linear_f32_qc8w_panels, or with `dynamic` linear_qd8_qc8w, each row quantized
// as it comes.  Then a weight's "panels" are packed int8 with the sums of weights, and after them float[16 * ceil(n/16)] biases.
// output[t] = h'; the states of the last step come out too.  sigmoid and tanh are those of kernels/math/f32.h.  A NaN
// comes out as 0x7FC00000.
//
// The caller has checked: sizes are at least 1, width is hidden unless there is a projection, scratch has
// recurrent_scratch_floats of its kind, `quantized` has linear_qd8_qc8w_scratch_bytes of the longest row, and the outputs
// overlap nothing else.  No pointer needs more alignment than a float.  Any
// number of threads, each with its own scratch.
#pragma once

#include <cstddef>

#include "kernels/microkernels/linear/linear.h"
#include "kernels/operators/linear_qd8_qc8w/linear_qd8_qc8w.h"

namespace alcove::kernels {

enum class Recurrence { rnn, gru, lstm };

struct RecurrentF32 {
  LinearF32Kernel* linear;
  LinearQd8Qc8wKernel* dynamic;    // in place of `linear`; null: none
  LinearI8Kernel* integers;        // of `dynamic`
  void* quantized;                 // scratch of `dynamic`
  const float* input;              // [steps][batch][features]
  const float* state;              // [batch][width]
  const float* cell;               // [batch][hidden], lstm only
  const float* input_panels;       // of G * hidden outputs and `features` inputs
  const float* state_panels;       // of G * hidden outputs and `width` inputs
  const float* projection_panels;  // of `width` outputs and `hidden` inputs; null: none
  float* output;                   // [steps][batch][width]
  float* last_state;               // [batch][width]
  float* last_cell;                // [batch][hidden], lstm only
  float* scratch;
  size_t steps, batch, features, hidden, width;
  bool is_reversed;
  bool is_relu;  // rnn only: relu in place of tanh
};

using RecurrentF32Kernel = void(const RecurrentF32&) noexcept;

RecurrentF32Kernel rnn_f32_scalar, rnn_f32_avx2, rnn_f32_avx512, rnn_f32_neon;
RecurrentF32Kernel gru_f32_scalar, gru_f32_avx2, gru_f32_avx512, gru_f32_neon;
RecurrentF32Kernel lstm_f32_scalar, lstm_f32_avx2, lstm_f32_avx512, lstm_f32_neon;

constexpr size_t recurrent_gates(Recurrence kind) noexcept {
  return kind == Recurrence::gru ? 3 : kind == Recurrence::lstm ? 4 : 1;
}

// The inputs of so many steps are multiplied at a time: 32 rows, or one step.
constexpr size_t recurrent_block_steps(size_t steps, size_t batch) noexcept {
  const size_t fitting = batch < 32 ? 32 / batch : 1;
  return steps < fitting ? steps : fitting;
}

// Gates of a block of inputs, gates of a state, and with a projection what is projected; never less for more steps or a
// greater batch.  For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size recurrent_scratch_floats(Recurrence kind, size_t steps, size_t batch, Size hidden,
                                        bool is_projected) noexcept {
  const size_t most = batch < 32 ? 32 : batch;
  const size_t block = steps * batch < most ? steps * batch : most;
  return hidden * (recurrent_gates(kind) * (block + batch) + (is_projected ? batch : 0));
}

}  // namespace alcove::kernels
