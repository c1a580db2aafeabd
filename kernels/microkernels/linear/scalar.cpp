// Linear without an instruction set: bias, then one fused multiply-add per k, then the residual and the activation.
#include "kernels/microkernels/linear/linear.h"
#include "kernels/long_sum.h"
#include "kernels/simd/vector_scalar.h"

namespace alcove::kernels {

void linear_f32_scalar(const LinearF32& a) noexcept {
  const size_t input_stride = a.input_stride > 0 ? a.input_stride : a.k;
  const size_t output_stride = a.output_stride > 0 ? a.output_stride : a.n;
  const size_t run = a.k / a.runs, block = sum_block(a.k);
  for (size_t row = 0; row < a.m; ++row) {
    for (size_t column = 0; column < a.n; ++column) {
      const float* weights = a.panels + column / 16 * (a.k + 1) * 16 + column % 16;
      const float* x = a.input + row * input_stride;
      float acc = *weights;
      LongSums<1> sums;
      sums.clear();
      for (size_t k = 0; k < a.k; ++k) {
        if (k > 0 && k % block == 0) {
          sums.add(&acc);
          acc = 0.0f;
        }
        const size_t piece = k / run;
        const size_t start = piece / a.row_runs * a.row_stride + piece % a.row_runs * a.run_stride;
        acc = __builtin_fmaf(x[start + k % run], *(weights += 16), acc);
      }
      sums.add(&acc);
      acc = *sums.total();
      const size_t at = row * output_stride + column;
      if (a.residual != nullptr) acc += a.residual[at];
      a.output[at] = canonical(activate<Scalar>(a.activation, acc));
    }
  }
}

}  // namespace alcove::kernels
