// The truth about recurrent layers.
#include "kernels/recurrent/body.h"

namespace alcove::kernels {

void rnn_f32_reference(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::rnn>(a); }
void gru_f32_reference(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::gru>(a); }
void lstm_f32_reference(const RecurrentF32& a) noexcept { recurrent_f32<Recurrence::lstm>(a); }

}  // namespace alcove::kernels
