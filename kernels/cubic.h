// The weights of cubic interpolation (Keys' kernel with A = -0.75, as torch has it), in float32, each step rounded.
#pragma once

namespace alcove::kernels {

// Weights of the taps at -1, 0, 1 and 2 for a point f in [0, 1) after tap 0.  Internal linkage, as in canonical.h.
[[maybe_unused]] static inline void cubic_weights(float f, float (&weights)[4]) noexcept {
  constexpr float kA = -0.75f;
  const float g = 1.0f - f, far_left = f + 1.0f, far_right = g + 1.0f;
  weights[0] = ((kA * far_left - 5.0f * kA) * far_left + 8.0f * kA) * far_left - 4.0f * kA;
  weights[1] = ((kA + 2.0f) * f - (kA + 3.0f)) * f * f + 1.0f;
  weights[2] = ((kA + 2.0f) * g - (kA + 3.0f)) * g * g + 1.0f;
  weights[3] = ((kA * far_right - 5.0f * kA) * far_right + 8.0f * kA) * far_right - 4.0f * kA;
}

}  // namespace alcove::kernels
