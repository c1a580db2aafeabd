// The loops of reduce; compiled once for each instruction set.
#include "kernels/canonical.h"
#include "kernels/microkernels/reduce/lanes.h"
#include "kernels/microkernels/reduce/reduce.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

template <typename T>
inline T canonicalize(T value) {
  if constexpr (std::is_floating_point_v<T>) return canonical(value);
  return value;
}

template <typename F, typename T>
void fold(const Reduce& a) {
  const auto* x = static_cast<const T*>(a.input);
  auto* y = static_cast<T*>(a.output);
  [[maybe_unused]] const T count = static_cast<T>(a.n);
  const auto finish = [&](T value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a.fold == Fold::mean) value = value / count;
    }
    return canonicalize(value);
  };
  for (size_t o = 0; o < a.outer; ++o) {
    const T* from = x + o * a.n * a.inner;
    T* to = y + o * a.inner;
    if (a.inner == 1) {
      *to = finish(fold_row<F>(from, a.n, [](T v) { return v; }));
      continue;
    }
    for (size_t c = 0; c < a.inner; c += kColumns) {
      const size_t width = a.inner - c < kColumns ? a.inner - c : kColumns;
      fold_columns<F>(from + c, a.n, a.inner, width, [](T v, size_t) { return v; }, to + c);
      for (size_t k = 0; k < width; ++k) to[c + k] = finish(to[c + k]);
    }
  }
}

// Is b strictly better than a, so that the first of equals stays?
template <bool kGreatest, typename T>
inline bool is_better(T a, T b) {
  return (kGreatest ? b > a : b < a) | ((b != b) & (a == a));
}

template <bool kGreatest, typename T>
void arg_columns(const T* x, size_t n, size_t stride, size_t width, int64_t* y) {
  T best[kColumns];
  uint32_t index[kColumns];
  for (size_t c = 0; c < width; ++c) {
    best[c] = x[c];
    index[c] = 0;
  }
  for (size_t i = 1; i < n; ++i) {
    const T* row = x + i * stride;
    for (size_t c = 0; c < width; ++c) {
      const bool better = is_better<kGreatest>(best[c], row[c]);
      best[c] = better ? row[c] : best[c];
      index[c] = better ? static_cast<uint32_t>(i) : index[c];
    }
  }
  for (size_t c = 0; c < width; ++c) y[c] = index[c];
}

template <bool kGreatest, typename T>
void arg(const Reduce& a) {
  using F = std::conditional_t<kGreatest, Greatest<T>, Least<T>>;
  const auto* x = static_cast<const T*>(a.input);
  auto* y = static_cast<int64_t*>(a.output);
  for (size_t o = 0; o < a.outer; ++o) {
    const T* from = x + o * a.n * a.inner;
    int64_t* to = y + o * a.inner;
    if (a.inner == 1) {
      // Two quick passes: which value, then where first.
      const T best = fold_row<F>(from, a.n, [](T v) { return v; });
      size_t i = 0;
      while (i + 1 < a.n && (best == best ? from[i] != best : from[i] == from[i])) ++i;
      *to = static_cast<int64_t>(i);
      continue;
    }
    for (size_t c = 0; c < a.inner; c += kColumns) {
      const size_t width = a.inner - c < kColumns ? a.inner - c : kColumns;
      arg_columns<kGreatest>(from + c, a.n, a.inner, width, to + c);
    }
  }
}

template <typename T>
constexpr bool kIsSummed = std::is_same_v<T, float> || std::is_same_v<T, int64_t>;

template <typename T>
void reduce(const Reduce& a) {
  switch (a.fold) {
    case Fold::sum:
    case Fold::mean:
      if constexpr (kIsSummed<T>) fold<Sum<T>, T>(a);
      return;
    case Fold::prod:
      if constexpr (kIsSummed<T>) fold<Product<T>, T>(a);
      return;
    case Fold::max: return fold<Greatest<T>, T>(a);
    case Fold::min: return fold<Least<T>, T>(a);
    case Fold::argmax: return arg<true, T>(a);
    case Fold::argmin: return arg<false, T>(a);
  }
}

}  // namespace

void ALCOVE_PER_ISA(reduce_f32)(const Reduce& a) noexcept { reduce<float>(a); }

#if defined(ALCOVE_ISA_scalar)
void reduce_i32_scalar(const Reduce& a) noexcept { reduce<int32_t>(a); }
void reduce_i64_scalar(const Reduce& a) noexcept { reduce<int64_t>(a); }
void reduce_i8_scalar(const Reduce& a) noexcept { reduce<int8_t>(a); }
void reduce_u8_scalar(const Reduce& a) noexcept { reduce<uint8_t>(a); }
#endif

}  // namespace alcove::kernels
