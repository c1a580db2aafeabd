// One float with the interface of a vector.
#pragma once

#include <cstddef>

#include "kernels/canonical.h"

namespace alcove::kernels {

namespace {

struct Scalar {
  static constexpr size_t kWidth = 1;
  using Register = float;
  static Register fill(float v) noexcept { return v; }
  static Register load(const float* p, size_t) noexcept { return *p; }
  using Mask = bool;
  static Mask mask(size_t lanes) noexcept { return lanes > 0; }
  static Register load_masked(const float* p, Mask used) noexcept { return used ? *p : 0.0f; }
  static void store(float* p, size_t, Register v) noexcept { *p = canonical(v); }
  static Register add(Register x, Register y) noexcept { return x + y; }
  static Register multiply(Register x, Register y) noexcept { return x * y; }
  static Register fma(Register x, Register w, Register y) noexcept { return __builtin_fmaf(x, w, y); }
  static Register clamp(Register y, Register low, Register high) noexcept { return clamp_value(y, low, high); }
};

}  // namespace

}  // namespace alcove::kernels
