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

namespace alcove::kernels {

inline constexpr size_t kLongestChain = 1024, kSumBlock = 256, kSumLevels = 4, kSumsOfLevel = 16;

// Terms of a block of a chain of so many.
constexpr size_t sum_block(size_t terms) noexcept { return terms > kLongestChain ? kSumBlock : kLongestChain; }

namespace {

[[maybe_unused]] inline void add_floats(float* __restrict to, const float* __restrict from, size_t width) noexcept {
  for (size_t i = 0; i < width; ++i) to[i] += from[i];
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
  [[gnu::noinline]] void add(const float* block) noexcept {
    for (size_t level = 0;; ++level) {
      if (counts[level] == 0) {
        std::memcpy(levels[level], block, sizeof levels[level]);
      } else {
        add_floats(levels[level], block, kWidth);
      }
      if (++counts[level] < kSumsOfLevel || level + 1 == kSumLevels) return;
      counts[level] = 0;
      block = levels[level];
    }
  }

  // At least one block was added; nothing is after this.
  [[gnu::noinline]] const float* total() noexcept {
    const float* below = nullptr;
    for (size_t level = 0; level < kSumLevels; ++level) {
      if (counts[level] == 0) continue;
      if (below != nullptr) add_floats(levels[level], below, kWidth);
      below = levels[level];
    }
    return below;
  }
};

}  // namespace

}  // namespace alcove::kernels
