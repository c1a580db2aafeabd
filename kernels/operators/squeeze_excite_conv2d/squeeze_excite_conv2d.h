// A squeeze-and-excitation (Hu, Shen, Sun 2018) and the 1x1 convolution behind it, NHWC:
//   m = mean of the pixels, s = squeeze(m), g = excite(s), y = project(x * g) + residual.
// Each step computes what reduce, linear, unary, binary and conv2d compute, with its own activation, to the same bits; but
// x * g is made a block of pixels at a time, so that it is never an image.
//
// The caller has checked: sizes are at least 1 and below 2^31, the products of sizes fit, low <= high; the output overlaps no
// input, the residual neither; gates and scratch have squeeze_excite_gate_floats and squeeze_excite_block_floats.  Any number of
// threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/microkernels/binary/binary.h"
#include "kernels/operators/conv2d/conv2d.h"
#include "kernels/microkernels/linear/linear.h"
#include "kernels/microkernels/reduce/reduce.h"
#include "kernels/microkernels/unary/unary.h"

namespace alcove::kernels {

// What follows a linear of the gates: bounds or hard gates inside it, then sigmoid or silu if there is a function.
struct GateActivation {
  Activated activation;
  std::optional<UnaryFunction> function;
};

// g of one image.
struct SqueezeExciteGatesF32 {
  const float* input;    // [pixels][channels]
  const float* squeeze;  // panels [ceil(squeezed/16)][channels + 1][16]
  const float* excite;   // panels [ceil(channels/16)][squeezed + 1][16]
  float* gates;          // [channels], then room for m and s
  ReduceKernel* reduce;
  LinearF32Kernel* linear;
  UnaryF32Kernel* unary;
  size_t pixels, channels, squeezed;
  GateActivation after_squeeze, after_excite;
};

// project(x * g) of some pixels of an image.
struct SqueezeExciteConv2dF32 {
  const float* input;     // [pixels][channels]
  const float* gates;     // [channels]
  const float* project;   // panels [ceil(out_c/16)][channels + 1][16]
  const float* residual;  // as the output, or null
  float* output;          // [pixels][out_c]
  float* scratch;
  BinaryKernel<float>* binary;
  LinearF32Kernel* linear;
  size_t pixels, channels, out_c;
  Activated activation;
};

using SqueezeExciteConv2dF32Kernel = void(const SqueezeExciteConv2dF32&) noexcept;

// Once for each image, before its pixels are shared out.
void squeeze_excite_gates(const SqueezeExciteGatesF32& a) noexcept;
SqueezeExciteConv2dF32Kernel squeeze_excite_conv2d_f32_scalar;

// For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size squeeze_excite_gate_floats(Size channels, Size squeezed) noexcept {
  return channels + channels + squeezed;
}

constexpr size_t squeeze_excite_block_floats(size_t channels) noexcept {
  return conv2d_block_pixels(channels) * channels;
}

}  // namespace alcove::kernels
