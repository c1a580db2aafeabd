// The truth about linear: bias, then one fused multiply-add per k.
#include <cmath>

#include "kernels/canonical.h"
#include "kernels/linear/linear.h"

namespace alcove::kernels {

void linear_f32_reference(const LinearF32& a) noexcept {
  for (size_t row = 0; row < a.m; ++row) {
    for (size_t column = 0; column < a.n; ++column) {
      const float* weights = a.panels + (column / 16) * (a.k + 1) * 16 + column % 16;
      float acc = weights[0];
      for (size_t k = 0; k < a.k; ++k) acc = std::fma(a.input[row * a.k + k], weights[(k + 1) * 16], acc);
      a.output[row * a.n + column] = canonical(acc);
    }
  }
}

}  // namespace alcove::kernels
