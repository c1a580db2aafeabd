// One dimension of a grid: where a coordinate lies, and what padding makes of it.  For the kernels of grid_sample alone: included once
// for each instruction set, so all of it has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/grid_sample/grid_sample.h"

namespace alcove::kernels {

namespace {

constexpr size_t kOutside = SIZE_MAX;

inline size_t position(float s, size_t size) noexcept {
  if (!(s >= 0.0f && s < static_cast<float>(size))) return kOutside;
  const size_t at = static_cast<size_t>(s);  // float(size) may be above size
  return at < size ? at : kOutside;
}

inline float unnormalize(float x, size_t size, bool align_corners) noexcept {
  const float n = static_cast<float>(size);
  return align_corners ? (x + 1.0f) / 2.0f * (n - 1.0f) : ((x + 1.0f) * n - 1.0f) / 2.0f;
}

// NaN for coordinates that have no end.
inline float reflect(float s, size_t size, bool align_corners) noexcept {
  const float low = align_corners ? 0.0f : -0.5f;
  const float period = 2.0f * (align_corners ? static_cast<float>(size - 1) : static_cast<float>(size));
  if (period == 0.0f) return 0.0f;
  const float t = __builtin_fabsf(s - low);
  const float e = __builtin_fmaf(-__builtin_floorf(t / period), period, t);
  return (e < period - e ? e : period - e) + low;
}

// NaN at 0.
inline float hold(float s, size_t size) noexcept {
  const float last = static_cast<float>(size - 1);
  if (!(s > 0.0f)) return 0.0f;
  return s < last ? s : last;
}

}  // namespace

}  // namespace alcove::kernels
