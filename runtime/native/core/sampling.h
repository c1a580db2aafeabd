// Chooses a token from logits: the same one on every machine, with every instruction set and in every language.
//
// Everything that decides is exact: comparisons of float32, IEEE 754 double additions, multiplications and divisions in one order,
// and whole numbers.  Of `count` logits l[i], with the greatest m:
//
//   greedy   temperature 0: the first of the greatest
//   weights  w[i] = floor(2^40 * e((double(l[i]) - m) * (1 / temperature))), a whole number; e is exp by the polynomial of
//            sampling.cpp, at most 1
//   top_k    the k greatest logits stay, of equal ones the first; 0: all
//   top_p    of those, in the same order, the fewest whose weights make at least floor(top_p * 2^32) / 2^32 of the sum of all
//            of them; 1: all
//   choice   r = 64 random bits; the first i, by rising i, among those that stay, with w[0] + ... + w[i] > floor(r * sum / 2^64)
//
// The bits are Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011): key = seed,
// counter = (draw, 0), r = the first two words.  So token number `draw` of a seed can be chosen without those before it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace alcove {

struct Sampling {
  double temperature;  // 0 or more, finite
  uint32_t top_k;      // 0: all
  double top_p;        // more than 0, at most 1
  uint64_t seed;
};

// Of a vocabulary; its weights' sum stays below 2^63.
inline constexpr size_t kMaxLogits = size_t{1} << 22;

// Philox 4x32-10.
void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) noexcept;

// Sets `token` to an index of `logits`.  Fails if there are none or too many, a NaN or infinity is among them (but for -infinity,
// which is never chosen unless all are), or the sampling is out of range.  Throws nothing but std::bad_alloc.
[[nodiscard]] Status sample_logits(const float* logits, size_t count, const Sampling& sampling, uint64_t draw,
                                   uint32_t& token);

}  // namespace alcove
