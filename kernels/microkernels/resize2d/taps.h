// Where resizing reads, of one dimension (resize2d.h).  Internal linkage, so that no copy compiled for one instruction set is chosen for
// all.
#pragma once

#include <cstddef>

namespace alcove::kernels {

namespace {

// Where one output position of a dimension reads, and with which weights.
struct Taps {
  size_t at[4];
  float weight[4];
};

[[maybe_unused]] size_t hold_inside(float position, size_t in) noexcept {
  if (!(position >= 0.0f)) return 0;
  if (position >= static_cast<float>(in)) return in - 1;
  const size_t at = static_cast<size_t>(position);  // float(in) may be above in
  return at < in ? at : in - 1;
}

[[maybe_unused]] Taps find_linear_taps(size_t o, size_t in, size_t out, float step, bool align_corners) noexcept {
  if (in == out) return {{o, o, 0, 0}, {1.0f, 0.0f, 0.0f, 0.0f}};
  float s = align_corners ? static_cast<float>(o) * step : (static_cast<float>(o) + 0.5f) * step - 0.5f;
  if (s < 0.0f) s = 0.0f;
  const size_t i = hold_inside(__builtin_floorf(s), in);
  float f = s - static_cast<float>(i);
  f = f < 0.0f ? 0.0f : f > 1.0f ? 1.0f : f;
  return {{i, i + 1 < in ? i + 1 : in - 1, 0, 0}, {1.0f - f, f, 0.0f, 0.0f}};
}

}  // namespace

}  // namespace alcove::kernels
