// A squeeze-and-excitation with the 1x1 convolution behind it: squeeze_excite_conv2d.
#include "core/ops/convolution.h"
#include "core/ops/gemm.h"

namespace alcove::ops {

namespace {

enum Input : uint8_t { kImage, kSqueeze, kExcite, kProject, kResidual };

constexpr OpCode kOp = OpCode::squeeze_excite_conv2d;

// The activation of a gate: that of a product, or a function of its own.
struct GateAttributes {
  consteval GateAttributes(Name prefix) : activation(kOp, prefix), function({kOp}, prefix, "function") {}

  ActivationAttributes activation;
  Integer function;
};

constexpr GateAttributes kAfterSqueeze{"squeeze_"}, kAfterExcite{"excite_"};
constexpr ActivationAttributes kActivation{kOp};
constexpr Integer kHasResidual{kOp, "has_residual"};

constexpr auto kSigmoid = static_cast<int64_t>(kernels::UnaryFunction::k_sigmoid);
constexpr auto kSilu = static_cast<int64_t>(kernels::UnaryFunction::k_silu);

Status check_gate_activation(const Subject& s, GateAttributes attributes) {
  ALCOVE_TRY(check_activation(s, attributes.activation, Activation::hardsigmoid));
  const int64_t function = s.integer(attributes.function);
  if (function == 0 || function == kSigmoid || function == kSilu) return {};
  return failure(Code::op_attribute, Section::program,
                 "%s: function is %" PRId64 ", allowed are 0, %" PRId64 " and %" PRId64, s.name(), function, kSigmoid,
                 kSilu);
}

kernels::GateActivation gate_activation(const Call& c, GateAttributes attributes) noexcept {
  const int64_t function = c.integer(attributes.function);
  if (function == 0) return {c.activation(attributes.activation), std::nullopt};
  return {c.activation(attributes.activation), static_cast<kernels::UnaryFunction>(function)};
}

}  // namespace

Status check_squeeze_excite_conv2d(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_image(s, s.op.inputs[kImage], "input"));
  ALCOVE_TRY(check_image(s, s.op.outputs[0], "output"));
  ALCOVE_TRY(check_residual(s, kHasResidual, kResidual));
  ALCOVE_TRY(check_gate_activation(s, kAfterSqueeze));
  ALCOVE_TRY(check_gate_activation(s, kAfterExcite));
  ALCOVE_TRY(check_activation(s, kActivation, Activation::hardsigmoid));
  const Tensor &in = s.input(kImage), &squeeze = s.input(kSqueeze), &out = s.output(0);
  const uint32_t channels = in.dims[3];
  const uint32_t squeezed = squeeze.dims[0];
  ALCOVE_TRY(check_panels(s, s.op.inputs[kSqueeze], "squeezing weight", 0, channels));
  ALCOVE_TRY(check_panels(s, s.op.inputs[kExcite], "exciting weight", channels, squeezed));
  ALCOVE_TRY(check_panels(s, s.op.inputs[kProject], "projecting weight", out.dims[3], channels));
  const uint64_t dims[4] = {in.dims[0], in.dims[1], in.dims[2], out.dims[3]};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 4));
  const Checked floats =
      kernels::squeeze_excite_gate_floats<Checked>(channels, squeezed) + kernels::squeeze_excite_block_floats(channels);
  ALCOVE_TRY(check_scratch(s, 1, floats * sizeof(float)));
  const auto weights = [&s](uint8_t i) { return Checked(s.input(i).size_bytes / sizeof(float)); };
  cost = elements(in) * 5 + Checked(in.dims[0]) * (weights(kSqueeze) + weights(kExcite)) +
         Checked(in.dims[0]) * in.dims[1] * in.dims[2] * weights(kProject);
  return {};
}

Status run_squeeze_excite_conv2d(const Call& c) noexcept {
  const Tensor &in = c.input(kImage), &out = c.output(0);
  const size_t pixels = size_t{in.dims[1]} * in.dims[2], channels = in.dims[3], out_c = out.dims[3];
  const size_t squeezed = c.input(kSqueeze).dims[0];
  float* const gates = c.scratch<float>(0);
  const float* const residual = c.integer(kHasResidual) == 1 ? c.in<float>(kResidual) : nullptr;
  for (size_t image = 0; image < in.dims[0]; ++image) {
    const float* const x = c.in<float>(kImage) + image * pixels * channels;
    kernels::squeeze_excite_gates({.input = x,
                                   .squeeze = c.in<float>(kSqueeze),
                                   .excite = c.in<float>(kExcite),
                                   .gates = gates,
                                   .reduce = c.kernels.reduce_f32,
                                   .linear = c.kernels.linear_f32,
                                   .unary = c.kernels.unary_f32,
                                   .pixels = pixels,
                                   .channels = channels,
                                   .squeezed = squeezed,
                                   .after_squeeze = gate_activation(c, kAfterSqueeze),
                                   .after_excite = gate_activation(c, kAfterExcite)});
    c.split(pixels, uint64_t{pixels} * channels * out_c, [&](size_t first, size_t end, size_t part) noexcept {
      const size_t at = (image * pixels + first) * out_c;
      float* const room =
          part == 0 ? gates + kernels::squeeze_excite_gate_floats(channels, squeezed) : c.scratch<float>(part);
      c.kernels.squeeze_excite_conv2d_f32({.input = x + first * channels,
                                           .gates = gates,
                                           .project = c.in<float>(kProject),
                                           .residual = residual != nullptr ? residual + at : nullptr,
                                           .output = c.out<float>(0) + at,
                                           .scratch = room,
                                           .binary = c.kernels.binary_f32,
                                           .linear = c.kernels.linear_f32,
                                           .pixels = end - first,
                                           .channels = channels,
                                           .out_c = out_c,
                                           .activation = c.activation(kActivation)});
    });
  }
  return {};
}

}  // namespace alcove::ops
