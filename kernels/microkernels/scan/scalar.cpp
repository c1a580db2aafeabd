// One pass for each column: the next value waits for the one before, whatever the instruction set.
#include "kernels/canonical.h"
#include "kernels/math/f64.h"
#include "kernels/microkernels/scan/scan.h"

namespace alcove::kernels {

namespace {

float canonicalize(double value) noexcept { return canonical(static_cast<float>(value)); }
int64_t canonicalize(uint64_t value) noexcept { return static_cast<int64_t>(value); }

// Sums and products, in an accumulator that is wider (float64) or wraps around (uint64).
template <bool kIsSum, typename T, typename Accumulator>
void accumulate(const T* x, T* y, size_t n, size_t stride) noexcept {
  Accumulator total = kIsSum ? 0 : 1;
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<Accumulator>(x[i * stride]);
    total = kIsSum ? total + value : total * value;
    y[i * stride] = canonicalize(total);
  }
}

void accumulate_exponentials(const float* x, float* y, size_t n, size_t stride) noexcept {
  double greatest = -kInfinityD;
  double sum = 0.0;
  for (size_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(x[i * stride]);
    if (value == greatest) {
      sum += value == -kInfinityD ? 0.0 : 1.0;
    } else if (value < greatest) {
      sum += exp_f64(value - greatest);
    } else {  // greater or NaN, which stays
      sum = sum * exp_f64(greatest - value) + 1.0;
      greatest = value;
    }
    y[i * stride] = canonicalize(greatest + log_f64(sum));
  }
}

template <bool kGreatest, typename T>
void find_extremes(const T* x, T* y, int64_t* indices, size_t n, size_t stride) noexcept {
  T best = x[0];
  int64_t index = 0;
  for (size_t i = 0; i < n; ++i) {
    const T value = x[i * stride];
    if (value != value || (best == best && (kGreatest ? value >= best : value <= best))) {
      best = value;
      index = static_cast<int64_t>(i);
    }
    if constexpr (sizeof(T) == sizeof(float)) {
      y[i * stride] = canonical(best);
    } else {
      y[i * stride] = best;
    }
    if (indices != nullptr) indices[i * stride] = index;
  }
}

template <typename T, typename Accumulator>
void scan(const Scan& a) noexcept {
  for (size_t o = 0; o < a.outer; ++o) {
    for (size_t c = 0; c < a.inner; ++c) {
      const size_t start = o * a.n * a.inner + c;
      const T* x = static_cast<const T*>(a.input) + start;
      T* y = static_cast<T*>(a.output) + start;
      int64_t* indices = a.indices == nullptr ? nullptr : a.indices + start;
      switch (a.function) {
        case Running::sum: accumulate<true, T, Accumulator>(x, y, a.n, a.inner); break;
        case Running::prod: accumulate<false, T, Accumulator>(x, y, a.n, a.inner); break;
        case Running::log_sum_exp:
          if constexpr (sizeof(T) == sizeof(float)) accumulate_exponentials(x, y, a.n, a.inner);
          break;
        case Running::max: find_extremes<true>(x, y, indices, a.n, a.inner); break;
        case Running::min: find_extremes<false>(x, y, indices, a.n, a.inner); break;
      }
    }
  }
}

}  // namespace

void scan_f32_scalar(const Scan& a) noexcept { scan<float, double>(a); }
void scan_i64_scalar(const Scan& a) noexcept { scan<int64_t, uint64_t>(a); }

}  // namespace alcove::kernels
