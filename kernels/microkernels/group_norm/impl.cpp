// The loops of group_norm; compiled once for each instruction set.
// Columns go in blocks of at most 64: several small groups at once, or one large group in parts.
#include "kernels/microkernels/group_norm/group_norm.h"
#include "kernels/microkernels/reduce/lanes.h"
#include "kernels/microkernels/reduce/moments.h"
#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

struct Sample {
  const float* x;
  size_t positions, channels;

  // How many elements there are from this one on.
  size_t left(size_t position, size_t column) const { return (positions - position) * channels - column; }
};

// Sixteen columns' moments so far, in memory.
inline Series series_at(const MomentsOf& m, size_t c) {
  using L = Lanes16;
  return {L::load(m.k + c), L::load(m.s + c), L::load(m.q + c), L::load(m.lost + c)};
}

inline void put(const Series& o, size_t c, MomentsOf& m) {
  using L = Lanes16;
  L::store(m.k + c, kLanes, o.k);
  L::store(m.s + c, kLanes, o.s);
  L::store(m.q + c, kLanes, o.q);
  L::store(m.lost + c, kLanes, o.lost);
}

// A block of kSeries x 16 columns.  Of fewer columns the elements behind them are read too, and not used; where the sample ends
// before those, from a copy.
template <size_t kSeries>
[[gnu::noinline]] void add_columns(const Sample& sample, size_t begin, size_t end, size_t first, size_t at,
                                   MomentsOf& m) {
  using L = Lanes16;
  constexpr size_t kWidth = kSeries * kLanes;
  const size_t column = first + at;
  const float* x = sample.x + begin * sample.channels + column;
  size_t stride = sample.channels;
  float copy[kLongestBlock * kWidth];
  if (sample.left(end - 1, column) < kWidth) {
    for (size_t i = begin; i < end; ++i) {
      const size_t left = sample.left(i, column);
      for (size_t c = 0; c < kWidth; c += kLanes) {
        L::store(copy + (i - begin) * kWidth + c, kLanes,
                 L::load_some(sample.x + i * stride + column + c, left < c ? 0 : left - c));
      }
    }
    x = copy;
    stride = kWidth;
  }
  const auto row = [=](size_t i, size_t v) { return L::load(x + (i - begin) * stride + v * kLanes); };
  const auto add = [&](auto... series) {
    add_block<true>(begin, end, row, series...);
    if (end < sample.positions) {
      move<true>(end, series...);
    } else {
      ((series.q = L::add(series.q, series.lost)), ...);
    }
    size_t c = at;
    ((put(series, c, m), c += kLanes), ...);
  };
  const auto so_far = [&](size_t v) { return begin == 0 ? Series::from(row(0, v)) : series_at(m, at + v * kLanes); };
  if constexpr (kSeries == 1) {
    add(so_far(0));
  } else {
    add(so_far(0), so_far(1));
  }
}

// Block by block through all columns: what is read stays close together.
[[gnu::noinline]] void sweep_columns(const Sample& sample, size_t first, size_t width, MomentsOf& m) {
  const auto add = [&](size_t begin, size_t end) {
    size_t at = 0;
    for (; at + kLanes < width; at += 2 * kLanes) add_columns<2>(sample, begin, end, first, at, m);
    if (at < width) add_columns<1>(sample, begin, end, first, at, m);
  };
  each_block(sample.positions, add, [](size_t) {});
}

// y = fma(x - k, scale, shift) of 16 columns each.
struct Finish {
  Lanes16::Floats k, scale, shift, low, high;

  Finish(const GroupNorm& a, const MomentsOf& m, size_t at)
      : k(Lanes16::load(m.k + at)),
        scale(Lanes16::load(m.s + at)),
        shift(Lanes16::load(m.q + at)),
        low(Lanes16::fill(a.low)),
        high(Lanes16::fill(a.high)) {}

  Lanes16::Floats operator()(const Lanes16::Floats& x) const {
    return Lanes16::clamp(Lanes16::fma(Lanes16::subtract(x, k), scale, shift), low, high);
  }
};

// Positions begin to end - 1 of `width` columns.
[[gnu::noinline]] void finish_block(const GroupNorm& a, const Sample& sample, const MomentsOf& m, size_t begin,
                                    size_t end, size_t first, size_t width, float* y) {
  using L = Lanes16;
  const size_t channels = a.channels;
  size_t at = 0;
  for (; at + kLanes <= width; at += kLanes) {
    const Finish finish(a, m, at);
    const float* from = sample.x + first + at;
    float* to = y + first + at;
    for (size_t i = begin; i < end; ++i) L::store(to + i * channels, kLanes, finish(L::load(from + i * channels)));
  }
  if (at == width) return;
  const Finish finish(a, m, at);
  for (size_t i = begin; i < end; ++i) {
    const size_t left = sample.left(i, first + at), start = i * channels + first + at;
    const L::Floats x = left >= kLanes ? L::load(sample.x + start) : L::load_some(sample.x + start, left);
    L::store(y + start, width - at, finish(x));
  }
}

// `width` columns from `first` on, whose groups' moments are known.
[[gnu::noinline]] void finish(const GroupNorm& a, const Sample& sample, size_t first, size_t width, MomentsOf& m,
                              float total, float* y) {
  using L = Lanes16;
  for (size_t at = 0; at < width; at += kLanes) {
    float weight[kLanes], bias[kLanes];
    L::store(weight, kLanes, a.weight == nullptr ? L::fill(1.0f) : L::load_some(a.weight + first + at, width - at));
    // A bias of +0 would turn -0 into +0.
    L::store(bias, kLanes, a.bias == nullptr ? L::fill(-0.0f) : L::load_some(a.bias + first + at, width - at));
    for (size_t l = 0; l < kLanes; ++l) {
      const Scaled by = scale_moments({m.k[at + l], m.s[at + l], m.q[at + l]}, total, a.eps);
      const float scale = by.r * weight[l];
      m.s[at + l] = scale;
      m.q[at + l] = __builtin_fmaf(-by.rest, scale, bias[l]);
    }
  }
  for (size_t i = 0; i < a.positions; i += kLongestBlock) {
    const size_t end = a.positions - i < kLongestBlock ? a.positions : i + kLongestBlock;
    finish_block(a, sample, m, i, end, first, width, y);
  }
}

// All series of a group alike.
void put(const Moments& moments, size_t first, size_t width, MomentsOf& m) {
  for (size_t c = first; c < first + width; ++c) {
    m.k[c] = moments.k;
    m.s[c] = moments.s;
    m.q[c] = moments.q;
  }
}

// Columns first to first + width - 1 as one, each of `count` elements.
[[gnu::noinline]] Moments merge_moments(const MomentsOf& m, size_t first, size_t width, float count, float total) {
  using L = Lanes16;
  constexpr size_t kParts = kColumns / kLanes;
  Series parts[kParts];
  L::Floats counts[kParts];
  float every[kLanes];
  for (float& lane : every) lane = count;
  size_t used = 0, at = 0;
  do {
    const size_t c = first + at, left = width - at;
    parts[used] = {L::load_some(m.k + c, left), L::load_some(m.s + c, left), L::load_some(m.q + c, left),
                   L::fill(0.0f)};
    counts[used++] = L::load_some(every, left);
    at += kLanes;
  } while (at < width);
  return merge_moments(parts, used, [&](size_t i) { return counts[i]; }, total);
}

// Groups of at most kColumns channels: as many as fit side by side.
void small_groups(const GroupNorm& a, const Sample& sample, float* y) {
  const size_t size = a.channels / a.groups;
  const auto count = static_cast<float>(a.positions), total = static_cast<float>(a.positions * size);
  const size_t step = kColumns / size * size;
  for (size_t first = 0; first < a.channels; first += step) {
    const size_t width = a.channels - first < step ? a.channels - first : step;
    MomentsOf m;
    sweep_columns(sample, first, width, m);
    if (size > 1) {
      for (size_t g = 0; g < width; g += size) {
        put(merge_moments(m, g, size, count, total), g, size, m);
      }
    }
    finish(a, sample, first, width, m, total, y);
  }
}

void large_groups(const GroupNorm& a, const Sample& sample, float* y) {
  const size_t size = a.channels / a.groups;
  const auto count = static_cast<float>(a.positions), total = static_cast<float>(a.positions * size);
  for (size_t first = 0; first < a.channels; first += size) {
    Moments all = {};
    float so_far = 0.0f;
    for (size_t c = 0; c < size; c += kColumns) {
      const size_t width = size - c < kColumns ? size - c : kColumns;
      MomentsOf m;
      sweep_columns(sample, first + c, width, m);
      const auto part = static_cast<float>(a.positions * width), sum = static_cast<float>(a.positions * (c + width));
      const Moments next = merge_moments(m, 0, width, count, part);
      all = c == 0 ? next : merge_moments(all, so_far, next, part, sum);
      so_far = sum;
    }
    for (size_t c = 0; c < size; c += kColumns) {
      const size_t width = size - c < kColumns ? size - c : kColumns;
      MomentsOf m;
      put(all, 0, width, m);
      finish(a, sample, first + c, width, m, total, y);
    }
  }
}

inline void group_norm(const GroupNorm& a) {
  for (size_t sample = 0; sample < a.samples; ++sample) {
    const size_t start = sample * a.positions * a.channels;
    const Sample one = {a.input + start, a.positions, a.channels};
    if (a.channels / a.groups <= kColumns) {
      small_groups(a, one, a.output + start);
    } else {
      large_groups(a, one, a.output + start);
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(group_norm_f32)(const GroupNorm& a) noexcept { group_norm(a); }

}  // namespace alcove::kernels
