// The truth about linear: bias, then one fused multiply-add per k, then the residual and the bounds.
#include <cmath>

#include "kernels/canonical.h"
#include "kernels/linear/linear.h"

namespace alcove::kernels {

void linear_f32_reference(const LinearF32& a) noexcept {
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  for (size_t row = 0; row < a.m; ++row) {
    for (size_t column = 0; column < a.n; ++column) {
      const float* weights = a.panels + (column / 16) * (a.k + 1) * 16 + column % 16;
      float acc = weights[0];
      for (size_t k = 0; k < a.k; ++k) acc = std::fma(a.input[row * input_stride + k], weights[(k + 1) * 16], acc);
      const size_t at = row * output_stride + column;
      if (a.residual != nullptr) acc += a.residual[at];
      acc = acc < a.low ? a.low : acc;
      acc = acc > a.high ? a.high : acc;
      a.output[at] = canonical(acc);
    }
  }
}

}  // namespace alcove::kernels
