// Recurrent layers for NEON: the same body, vectorised by the compiler.
#include "kernels/recurrent/body.h"

namespace alcove::kernels {

void rnn_f32_neon(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::rnn>(a); }
void gru_f32_neon(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::gru>(a); }
void lstm_f32_neon(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::lstm>(a); }

}  // namespace alcove::kernels
