// The truth about recurrent layers.
#include "kernels/recurrent/body.h"

namespace alcove::kernels {

void recurrent_f32_reference(const RecurrentF32& a) noexcept { recurrent_f32_body(a); }

}  // namespace alcove::kernels
