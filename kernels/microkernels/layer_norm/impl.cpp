// The loops of layer_norm; compiled once for each instruction set.
#include "kernels/microkernels/layer_norm/layer_norm.h"
#include "kernels/microkernels/reduce/lanes.h"
#include "kernels/microkernels/reduce/moments.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

// y = fma(fma(x - k, r, shift), weight, bias).
struct Finish {
  float k, r, shift;
};

template <bool kHasWeight, bool kHasBias>
void finish_row(const LayerNorm& a, const float* x, const Finish& f, float* y) {
  using L = Lanes16;
  const L::Floats k = L::fill(f.k), r = L::fill(f.r), shift = L::fill(f.shift), low = L::fill(a.low),
                  high = L::fill(a.high);
  const auto made = [=, weight = a.weight, bias = a.bias](size_t i, auto load) {
    L::Floats value = L::fma(L::subtract(load(x + i), k), r, shift);
    if constexpr (kHasWeight && kHasBias) {
      value = L::fma(value, load(weight + i), load(bias + i));
    } else if constexpr (kHasWeight) {
      value = L::multiply(value, load(weight + i));
    } else if constexpr (kHasBias) {
      value = L::add(value, load(bias + i));
    }
    return L::clamp(value, low, high);
  };
  const size_t n = a.n;
  if (n < kLanes) {
    L::store(y, n, made(0, [n](const float* p) { return L::load_some(p, n); }));
    return;
  }
  // The last sixteen are read before any is written: x may be y.
  const auto load = [](const float* p) { return L::load(p); };
  const L::Floats last = made(n - kLanes, load);
  for (size_t i = 0; i + kLanes < n; i += kLanes) L::store(y + i, kLanes, made(i, load));
  L::store(y + n - kLanes, kLanes, last);
}

void finish_row(const LayerNorm& a, const float* x, const Finish& f, float* y) {
  if (a.weight != nullptr && a.bias != nullptr) {
    finish_row<true, true>(a, x, f, y);
  } else if (a.weight != nullptr) {
    finish_row<true, false>(a, x, f, y);
  } else if (a.bias != nullptr) {
    finish_row<false, true>(a, x, f, y);
  } else {
    finish_row<false, false>(a, x, f, y);
  }
}

// How the elements of a row are spread over the lanes: element i in lane i % 16, but of those behind the last whole sixteen
// the last one in lane 15, so that they can be read with what is before them.
struct Spread {
  Lanes16::Floats counts;
  Lanes16::Floats has_tail;  // 1 or 0

  explicit Spread(size_t n) {
    float lanes[kLanes], tails[kLanes];
    for (size_t l = 0; l < kLanes; ++l) {
      tails[l] = l + n % kLanes >= kLanes ? 1.0f : 0.0f;
      lanes[l] = n < kLanes ? (l < n ? 1.0f : 0.0f) : static_cast<float>(n / kLanes) + tails[l];
    }
    counts = Lanes16::load(lanes);
    has_tail = Lanes16::load(tails);
  }
};

// The rows that follow each other from x on, one for each of `all`.
template <bool kIsLong, typename... All>
[[gnu::noinline]] void sweep_rows(const float* x, size_t n, const Spread& spread, All&... all) {
  using L = Lanes16;
  size_t v = 0;
  if (n < kLanes) {
    ((all = Series::from(L::load_some(x + v++ * n, n))), ...);
    return;
  }
  const size_t whole = n / kLanes;
  const auto row = [x, n](size_t i, size_t r) { return L::load(x + r * n + i * kLanes); };
  const auto sweep = [&](auto... series) {
    each_block(
        whole, [&](size_t first, size_t end) { add_block<kIsLong>(first, end, row, series...); },
        [&](size_t count) { move<kIsLong>(count, series...); });
    const auto add_tail = [&](const Series& from, Series& to) {
      L::Floats s = from.s, q = kIsLong ? L::add(from.q, from.lost) : from.q;
      if (n % kLanes > 0) {
        const L::Floats d = L::multiply(L::subtract(L::load(x + (v + 1) * n - kLanes), from.k), spread.has_tail);
        s = L::add(s, d);
        q = L::fma(d, d, q);
      }
      to.k = from.k;
      to.s = s;
      to.q = q;
      ++v;
    };
    (add_tail(series, all), ...);
  };
  if constexpr (sizeof...(all) == 1) {
    sweep(Series::from(row(0, 0)));
  } else {
    sweep(Series::from(row(0, 0)), Series::from(row(0, 1)));
  }
}

// Some rows step by step: each step of a row waits for the one before it, but not for other rows.
constexpr size_t kRowsAtATime = 4;
constexpr size_t kLongestShort = 4096;  // elements of a row whose lanes are short series

inline void layer_norm(const LayerNorm& a) {
  const auto total = static_cast<float>(a.n);
  const Spread spread(a.n);
  for (size_t first = 0; first < a.rows; first += kRowsAtATime) {
    const size_t rows = a.rows - first < kRowsAtATime ? a.rows - first : kRowsAtATime;
    const float* x = a.input + first * a.n;
    Finish finish[kRowsAtATime];
    if (a.is_rms) {
      float squares[kRowsAtATime];
      for (size_t i = 0; i < rows; ++i)
        squares[i] = fold_row<Sum<float>>(x + i * a.n, a.n, [](float v) { return v * v; });
      for (size_t i = 0; i < rows; ++i) finish[i] = {0.0f, 1.0f / __builtin_sqrtf(squares[i] / total + a.eps), -0.0f};
    } else {
      Series all[kRowsAtATime];
      size_t i = 0;
      if (a.n > kLongestShort) {
        for (; i < rows; ++i) sweep_rows<true>(x + i * a.n, a.n, spread, all[i]);
      }
      for (; i + 2 <= rows; i += 2) sweep_rows<false>(x + i * a.n, a.n, spread, all[i], all[i + 1]);
      for (; i < rows; ++i) sweep_rows<false>(x + i * a.n, a.n, spread, all[i]);
      for (i = 0; i < rows; ++i) {
        const Moments m = merge_moments(all + i, 1, [&](size_t) { return spread.counts; }, total);
        const Scaled by = scale_moments(m, total, a.eps);
        finish[i] = {m.k, by.r, -(by.rest * by.r)};
      }
    }
    for (size_t i = 0; i < rows; ++i) finish_row(a, x + i * a.n, finish[i], a.output + (first + i) * a.n);
  }
}

}  // namespace

void ALCOVE_PER_ISA(layer_norm_f32)(const LayerNorm& a) noexcept { layer_norm(a); }

}  // namespace alcove::kernels
