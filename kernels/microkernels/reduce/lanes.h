// The sixteen lanes of every fold over a row or over columns.  For files that are compiled once for each instruction set:
// everything has internal linkage, so that no copy for a wide set can be chosen for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/long_sum.h"

namespace alcove::kernels {

namespace {

constexpr size_t kLanes = 16;
constexpr size_t kColumns = 64;  // columns that are folded together: their lanes stay in the first cache

// Integers wrap around.
template <typename T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<int64_t> {
  using Type = uint64_t;
};

template <typename T>
struct Sum {
  using W = typename Wide<T>::Type;
  static constexpr T kNeutral = 0;
  static T of(T a, T b) { return static_cast<T>(static_cast<W>(a) + static_cast<W>(b)); }
};
template <typename T>
struct Product {
  using W = typename Wide<T>::Type;
  static constexpr T kNeutral = 1;
  static T of(T a, T b) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(b)); }
};
template <typename T>
struct Greatest {
  static constexpr T kNeutral =
      std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  static T of(T a, T b) { return (b > a) | (b != b) ? b : a; }
};
template <typename T>
struct Least {
  static constexpr T kNeutral =
      std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  static T of(T a, T b) { return (b < a) | (b != b) ? b : a; }
};

// Lane l takes lane l + 8, + 4, + 2, + 1.
template <typename F, typename T>
inline T tree(T* lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) lanes[l] = F::of(lanes[l], lanes[l + width]);
  }
  return lanes[0];
}

// Elements of a row after which the lanes of a sum go to the levels of long_sum.h, and begin anew.
constexpr size_t kLaneBlock = 1024;

template <typename F>
constexpr bool kHasBlocks = std::is_same_v<F, Sum<float>>;

template <typename F, typename T, typename Map>
inline void fold_lanes(const T* x, size_t n, Map map, T (&lanes)[kLanes]) {
  for (size_t l = 0; l < kLanes; ++l) lanes[l] = F::kNeutral;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 1  // unrolled too early, a choice between two lanes would stay scalar
    for (size_t l = 0; l < kLanes; ++l) lanes[l] = F::of(lanes[l], map(x[i + l]));
  }
  for (size_t l = 0; i + l < n; ++l) lanes[l] = F::of(lanes[l], map(x[i + l]));
}

// Folds map(x[0]) ... map(x[n - 1]).
template <typename F, typename T, typename Map>
inline T fold_row(const T* x, size_t n, Map map) {
  T lanes[kLanes];
  if constexpr (kHasBlocks<F>) {
    if (n > kLaneBlock) {
      LongSums<kLanes> sums;
      sums.clear();
      for (size_t i = 0; i < n; i += kLaneBlock) {
        fold_lanes<F>(x + i, n - i < kLaneBlock ? n - i : kLaneBlock, map, lanes);
        sums.add(lanes);
      }
      std::memcpy(lanes, sums.total(), sizeof lanes);
      return tree<F>(lanes);
    }
  }
  fold_lanes<F>(x, n, map, lanes);
  return tree<F>(lanes);
}

// Rows first to end - 1 of `width` columns, into the lanes.
template <typename F, typename T, typename Map>
inline void fold_rows(const T* __restrict x, size_t first, size_t end, size_t stride, size_t width, Map map,
                      T (*__restrict lanes)[kColumns]) {
  for (size_t i = first; i < end; ++i) {
    const T* row = x + i * stride;
    T* lane = lanes[i % kLanes];
    for (size_t c = 0; c < width; ++c) lane[c] = F::of(lane[c], map(row[c], c));
  }
}

// Blocks of kLaneBlock rows, for the lanes of a sum.
template <typename F, typename Map>
[[gnu::noinline]] void fold_long_columns(const float* x, size_t n, size_t stride, size_t width, Map map,
                                         float (*lanes)[kColumns]) {
  LongSums<kLanes * kColumns> sums;
  sums.clear();
  for (size_t i = 0; i < n; i += kLaneBlock) {
    std::memset(lanes, 0, kLanes * sizeof *lanes);
    fold_rows<F>(x, i, n - i < kLaneBlock ? n : i + kLaneBlock, stride, width, map, lanes);
    sums.add(lanes[0]);
  }
  std::memcpy(lanes, sums.total(), kLanes * sizeof *lanes);
}

// The same of each of `width` columns, at most kColumns; result[c] folds map(x[i * stride + c], c) over i.  A lane that no
// element reached is neutral and stays out of the tree.
template <typename F, typename T, typename Map>
inline void fold_columns(const T* x, size_t n, size_t stride, size_t width, Map map, T* result) {
  T lanes[kLanes][kColumns];
  const size_t used = n < kLanes ? n : kLanes;
  if (kHasBlocks<F> && n > kLaneBlock) {
    if constexpr (kHasBlocks<F>) fold_long_columns<F>(x, n, stride, width, map, lanes);
  } else {
    for (size_t l = 0; l < used; ++l) {
      for (size_t c = 0; c < width; ++c) lanes[l][c] = F::of(F::kNeutral, map(x[l * stride + c], c));
    }
    fold_rows<F>(x, kLanes, n, stride, width, map, lanes);
  }
  for (size_t step = kLanes / 2; step > 0; step /= 2) {
    for (size_t l = 0; l < step && l + step < used; ++l) {
      for (size_t c = 0; c < width; ++c) lanes[l][c] = F::of(lanes[l][c], lanes[l + step][c]);
    }
  }
  for (size_t c = 0; c < width; ++c) result[c] = lanes[0][c];
}

}  // namespace

}  // namespace alcove::kernels
