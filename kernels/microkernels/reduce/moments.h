// Mean and variance in one sweep over memory.  Everything has internal linkage, as in lanes.h.
//
// A series x[0], x[1], ... is summed about a shift k that follows its mean:
//   k = x[0], S = Q = +0; then for each element d = x - k, s = s + d, q = fma(d, d, q), in blocks.  Blocks end
//   after 4, 8, 16 and 32 elements, then after each 32 more, and each block has its own s and q from +0.
//   With N elements so far a block ends in
//     S = S + s; next = fma(S, 1 / N, k), e = k - next, t = fma(N, e, S);
//     a = fma(e, S + t, q + lost), sum = Q + a brought into 0 to FLT_MAX, lost = a - (sum - Q), Q = sum, S = t, k = next
//   (lost, +0 at first, is what roundings took from Q), but where no more follow k stays, and Q is Q + (q + lost).
//   A short series keeps no account of that: Q = fma(e, S + t, Q + q), and Q + q where no more follow.
// So S = sum(x - k) and Q = sum((x - k)^2) but for roundings.  No block is longer than all before it (the first: four), so
// that what a k far from the mean adds to Q, and takes off again, is at most about what the variance has anyway: a first
// element far off costs no digits.  (Chan, Golub, LeVeque: Algorithms for computing the sample variance, 1983.)
#pragma once

#include <cstddef>

#include "kernels/microkernels/reduce/lanes.h"
#include "kernels/simd/lanes16.h"

namespace alcove::kernels {

namespace {

constexpr size_t kFirstBlock = 4, kLongestBlock = 32;

// Sixteen series.
struct Series {
  Lanes16::Floats k, s, q, lost;

  static Series from(const Lanes16::Floats& first) {
    const Lanes16::Floats zero = Lanes16::fill(0.0f);
    return {first, zero, zero, zero};
  }
};

// What is known of some elements: S and Q about k.
struct Moments {
  float k, s, q;
};

// The same of some series, side by side.
struct MomentsOf {
  float k[kColumns], s[kColumns], q[kColumns], lost[kColumns];
};

// The blocks of a series of n elements, in order: add(first, end), and where more follow move(end).
template <typename Add, typename Move>
[[gnu::always_inline]] inline void each_block(size_t n, Add add, Move move) {
  size_t first = 0;
  for (size_t end = kFirstBlock; end < n; end += end < kLongestBlock ? end : kLongestBlock) {
    add(first, end);
    move(end);
    first = end;
  }
  add(first, n);
}

// A block's sums of sixteen series.
struct BlockSums {
  Lanes16::Floats k, s, q;

  [[gnu::always_inline]] explicit BlockSums(const Series& series) : k(series.k), s(Lanes16::fill(0.0f)), q(s) {}

  [[gnu::always_inline]] void add(const Lanes16::Floats& x) {
    const Lanes16::Floats d = Lanes16::subtract(x, k);
    s = Lanes16::add(s, d);
    q = Lanes16::fma(d, d, q);
  }
  // Of a long series q waits in `lost` for what follows.
  template <bool kIsLong>
  [[gnu::always_inline]] void add_to(Series& series) const {
    series.s = Lanes16::add(series.s, s);
    if constexpr (kIsLong) {
      series.lost = Lanes16::add(series.lost, q);
    } else {
      series.q = Lanes16::add(series.q, q);
    }
  }
};

// row(i, v) gives element i of series v.  Two at a time hide how long each addition takes; two names, because an array of them
// would stay in memory.
template <bool kIsLong, typename Row>
[[gnu::always_inline]] inline void add_block(size_t first, size_t end, Row row, Series& one) {
  BlockSums sums(one);
  for (size_t i = first; i < end; ++i) sums.add(row(i, 0));
  sums.add_to<kIsLong>(one);
}

template <bool kIsLong, typename Row>
[[gnu::always_inline]] inline void add_block(size_t first, size_t end, Row row, Series& one, Series& other) {
  BlockSums sums(one), others(other);
  for (size_t i = first; i < end; ++i) {
    sums.add(row(i, 0));
    others.add(row(i, 1));
  }
  sums.add_to<kIsLong>(one);
  others.add_to<kIsLong>(other);
}

// k to the mean of the n elements so far.
template <bool kIsLong, typename... Others>
[[gnu::always_inline]] inline void move(size_t n, Series& o, Others&... others) {
  using L = Lanes16;
  const L::Floats next = L::fma(o.s, L::fill(1.0f / static_cast<float>(n)), o.k);
  const L::Floats e = L::subtract(o.k, next);
  const L::Floats t = L::fma(L::fill(static_cast<float>(n)), e, o.s);
  const L::Floats twice = L::add(o.s, t);
  o.k = next;
  o.s = t;
  if constexpr (kIsLong) {
    const L::Floats added = L::fma(e, twice, o.lost);
    const L::Floats sum = L::clamp(L::add(o.q, added), L::fill(0.0f), L::fill(std::numeric_limits<float>::max()));
    o.lost = L::subtract(added, L::subtract(sum, o.q));
    o.q = sum;
  } else {
    o.q = L::fma(e, twice, o.q);
  }
  if constexpr (sizeof...(others) > 0) move<kIsLong>(n, others...);
}

// kColumns series at most as one of `total` elements, counts(i) elements in each of those that are in part i:
// k = k[0] + sum(fma(count, k - k[0], s)) * (1 / total), the mean but for roundings, then the sums of the s and q brought there.
// Sums by lanes.
template <typename Counts>
[[gnu::always_inline]] inline Moments merge_moments(const Series* parts, size_t part_count, Counts counts,
                                                    float total) {
  using L = Lanes16;
  float k[kLanes];
  L::store(k, kLanes, parts[0].k);
  const L::Floats first = L::fill(k[0]);
  L::Floats sum = L::fill(0.0f), s = sum, q = sum;
  for (size_t i = 0; i < part_count; ++i)
    sum = L::add(sum, L::fma(counts(i), L::subtract(parts[i].k, first), parts[i].s));
  const float mean = __builtin_fmaf(L::sum(sum), 1.0f / total, k[0]);
  for (size_t i = 0; i < part_count; ++i) {
    const L::Floats e = L::subtract(parts[i].k, L::fill(mean));
    const L::Floats t = L::fma(counts(i), e, parts[i].s);
    s = L::add(s, t);
    q = L::add(q, L::fma(e, L::add(parts[i].s, t), parts[i].q));
  }
  return {mean, L::sum(s), L::sum(q)};
}

// The same of two.
inline Moments merge_moments(const Moments& one, float count, const Moments& other, float others, float total) {
  const float apart = other.k - one.k;
  const float mean = __builtin_fmaf(one.s + __builtin_fmaf(others, apart, other.s), 1.0f / total, one.k);
  const float e = one.k - mean, f = other.k - mean;
  const float t = __builtin_fmaf(count, e, one.s), u = __builtin_fmaf(others, f, other.s);
  return {mean, t + u, __builtin_fmaf(e, one.s + t, one.q) + __builtin_fmaf(f, other.s + u, other.q)};
}

// The mean of `total` elements is k + rest, and r = 1 / sqrt(variance + eps).
struct Scaled {
  float r, rest;
};

inline Scaled scale_moments(const Moments& m, float total, float eps) {
  const float part = 1.0f / total;
  const float rest = m.s * part;
  const float variance = __builtin_fmaf(-m.s, rest, m.q) * part;
  return {1.0f / __builtin_sqrtf((variance < 0.0f ? 0.0f : variance) + eps), rest};
}

}  // namespace

}  // namespace alcove::kernels
