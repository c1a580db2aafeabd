// Sums of many terms, in blocks: a chain of a million roundings would lose digits that a tree keeps.
//
// A chain of at most kLongestChain terms is added in order.  Of a longer one each kSumBlock terms are added in order from +0
// (the first from where the chain starts); 16 sums of blocks are added in order, 16 of those, and so on for kSumLevels levels,
// the last of which takes all that come.  At the end what a level holds is added to what the levels below it hold, from the
// lowest up.  One order for every instruction set.  Everything has internal linkage, so that no copy for a wide one is chosen
// for all.
#pragma once

#include <cstddef>
#include <cstring>

// One copy for all callers: GCC would make one for each constant that a parameter takes.
#if __has_cpp_attribute(gnu::noclone)
#define ALCOVE_ONE_COPY [[maybe_unused, gnu::noinline, gnu::noclone]]
#else
#define ALCOVE_ONE_COPY [[maybe_unused, gnu::noinline]]
#endif

namespace alcove::kernels {

inline constexpr size_t kLongestChain = 1024, kSumBlock = 256, kSumLevels = 4, kSumsOfLevel = 16;

// Terms of a block of a chain of so many.
constexpr size_t sum_block(size_t terms) noexcept { return terms > kLongestChain ? kSumBlock : kLongestChain; }

namespace {

[[maybe_unused]] inline void add_floats(float* __restrict to, const float* __restrict from, size_t width) noexcept {
  for (size_t i = 0; i < width; ++i) to[i] += from[i];
}

// Adds the sums of one block, `width` of them, to levels of so many.
[[maybe_unused, gnu::noinline]] void add_block(float* levels, size_t* counts, const float* block,
                                               size_t width) noexcept {
  for (size_t level = 0;; ++level) {
    float* sums = levels + level * width;
    if (counts[level] == 0) {
      std::memcpy(sums, block, width * sizeof(float));
    } else {
      add_floats(sums, block, width);
    }
    if (++counts[level] < kSumsOfLevel || level + 1 == kSumLevels) return;
    counts[level] = 0;
    block = sums;
  }
}

// At least one block was added; nothing is after this.
[[maybe_unused, gnu::noinline]] const float* add_levels(float* levels, const size_t* counts, size_t width) noexcept {
  const float* below = nullptr;
#pragma GCC unroll 1  // once for a long sum
  for (size_t level = 0; level < kSumLevels; ++level) {
    if (counts[level] == 0) continue;
    float* sums = levels + level * width;
    if (below != nullptr) add_floats(sums, below, width);
    below = sums;
  }
  return below;
}

// The two above for the widths of tiles: a copy for each would be the larger part of what products take.
ALCOVE_ONE_COPY void add_wide_block(float* levels, size_t* counts, const float* block, size_t width) noexcept {
  add_block(levels, counts, block, width);
}
ALCOVE_ONE_COPY const float* add_wide_levels(float* levels, const size_t* counts, size_t width) noexcept {
  return add_levels(levels, counts, width);
}

// kWidth long sums side by side.
template <size_t kWidth>
struct LongSums {
  float levels[kSumLevels][kWidth];
  size_t counts[kSumLevels];

  void clear() noexcept {
    for (size_t& count : counts) count = 0;
  }

  // The sums of one block.
  void add(const float* block) noexcept {
    (kWidth > 16 ? add_wide_block : add_block)(levels[0], counts, block, kWidth);
  }

  // At least one block was added; nothing is after this.
  const float* total() noexcept { return (kWidth > 16 ? add_wide_levels : add_levels)(levels[0], counts, kWidth); }
};

}  // namespace

}  // namespace alcove::kernels
