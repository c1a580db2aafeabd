// The only squeeze_excite_conv2d: it walks over the pixels, `reduce`, `linear` and `binary` compute.
#include "kernels/operators/squeeze_excite_conv2d/squeeze_excite_conv2d.h"

namespace alcove::kernels {

namespace {

void layer(const SqueezeExciteGatesF32& a, const float* x, size_t k, const float* panels, size_t n,
           const GateActivation& after, float* y) noexcept {
  a.linear({.input = x, .panels = panels, .output = y, .m = 1, .n = n, .k = k, .activation = after.activation});
  if (after.function) a.unary({*after.function, 0.0f, 0.0f, 0.0f, y, y, n});
}

}  // namespace

void squeeze_excite_gates(const SqueezeExciteGatesF32& a) noexcept {
  float* const mean = a.gates + a.channels;
  float* const squeezed = mean + a.channels;
  a.reduce({a.input, mean, 1, a.pixels, a.channels, Fold::mean});
  layer(a, mean, a.channels, a.squeeze, a.squeezed, a.after_squeeze, squeezed);
  layer(a, squeezed, a.squeezed, a.excite, a.channels, a.after_excite, a.gates);
}

void squeeze_excite_conv2d_f32_scalar(const SqueezeExciteConv2dF32& a) noexcept {
  const size_t block = conv2d_block_pixels(a.channels);
  for (size_t done = 0; done < a.pixels; done += block) {
    const size_t count = a.pixels - done < block ? a.pixels - done : block;
    Binary<float> product{};
    product.function = BinaryFunction::k_mul;
    product.a = a.input + done * a.channels;
    product.b = a.gates;
    product.output = a.scratch;
    product.shape = {2, {count, a.channels}};
    product.a_strides[0] = a.channels;
    product.a_strides[1] = product.b_strides[1] = 1;
    a.binary(product);
    a.linear({.input = a.scratch,
              .panels = a.project,
              .output = a.output + done * a.out_c,
              .m = count,
              .n = a.out_c,
              .k = a.channels,
              .residual = a.residual != nullptr ? a.residual + done * a.out_c : nullptr,
              .activation = a.activation});
  }
}

}  // namespace alcove::kernels
