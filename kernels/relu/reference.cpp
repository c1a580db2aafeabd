// The truth about relu.
#include "kernels/canonical.h"
#include "kernels/relu/relu.h"

namespace alcove::kernels {

void relu_f32_reference(const ReluF32& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) {
    const float x = a.input[i];
    a.output[i] = x > 0.0f ? x : (x == x ? 0.0f : canonical(x));
  }
}

}  // namespace alcove::kernels
