// How scatters combine the value that is there with the one that comes.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/canonical.h"
#include "kernels/microkernels/scatter/scatter.h"

namespace alcove::kernels {

// Integers wrap around: their sums and products are formed without a sign.
template <typename T>
[[maybe_unused]] static T combine(ScatterMode mode, T there, T comes) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    switch (mode) {
      case ScatterMode::set: return comes;
      case ScatterMode::add: return canonical(there + comes);
      case ScatterMode::mul: return canonical(there * comes);
      case ScatterMode::amax: return canonical(comes > there || comes != comes ? comes : there);
      case ScatterMode::amin: return canonical(comes < there || comes != comes ? comes : there);
    }
  } else {
    using U = std::make_unsigned_t<T>;
    switch (mode) {
      case ScatterMode::set: return comes;
      case ScatterMode::add: return static_cast<T>(static_cast<U>(there) + static_cast<U>(comes));
      case ScatterMode::mul: return static_cast<T>(static_cast<U>(there) * static_cast<U>(comes));
      case ScatterMode::amax: return comes > there ? comes : there;
      case ScatterMode::amin: return comes < there ? comes : there;
    }
  }
  return comes;
}

// What changes nothing when a value is combined with it.
template <typename T>
[[maybe_unused]] static T neutral(ScatterMode mode) noexcept {
  using Limits = std::numeric_limits<T>;
  switch (mode) {
    case ScatterMode::mul: return T{1};
    case ScatterMode::amax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ScatterMode::amin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default: return T{0};
  }
}

}  // namespace alcove::kernels
