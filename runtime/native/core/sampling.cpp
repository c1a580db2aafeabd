#include "core/sampling.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <vector>

namespace alcove {

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// 1 / k!, k falling.
constexpr double kTaylor[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                              1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2,     1.0,        1.0};

// exp(x) for x <= 0, to within 2^-45 of it: x = n ln 2 + r, and Taylor's polynomial of degree 11 in r by Horner's rule.
double exp_of(double x) noexcept {
  if (!(x > -28.0)) return 0.0;  // 2^40 times that is below 1
  constexpr double kPerLn2 = 0x1.71547652b82fep+0, kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double n = std::floor(x * kPerLn2 + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = kTaylor[0];
  for (size_t k = 1; k < std::size(kTaylor); ++k) p = p * r + kTaylor[k];
  return p * std::bit_cast<double>(static_cast<uint64_t>(1023 + static_cast<int64_t>(n)) << 52);
}

uint64_t weight_of(float logit, float greatest, double inverse) noexcept {
  const double e = exp_of((static_cast<double>(logit) - static_cast<double>(greatest)) * inverse);
  return static_cast<uint64_t>((e < 1.0 ? e : 1.0) * 0x1p40);
}

// floor(a * b / 2^64).
uint64_t multiply_high(uint64_t a, uint64_t b) noexcept {
  const uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  return a1 * b1 + (middle >> 32) + (((middle & 0xFFFFFFFF) + a0 * b1) >> 32);
}

// Falls as logits fall, and for equal ones as the index rises: whole numbers sort faster than pairs.
uint64_t rank_of(float logit, uint32_t index) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(logit == 0.0f ? 0.0f : logit);  // -0 is 0
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
  return uint64_t{ordered} << 32 | (0xFFFFFFFF - index);
}
uint32_t index_of(uint64_t rank) noexcept { return 0xFFFFFFFF - static_cast<uint32_t>(rank); }

Status check(size_t count, const Sampling& s) {
  if (count == 0 || count > kMaxLogits) {
    return failure(Code::input_shape, Section::file, "%zu logits; allowed are 1 to %zu", count, kMaxLogits);
  }
  if (!(s.temperature >= 0.0) || !std::isfinite(s.temperature)) {
    return failure(Code::input_shape, Section::file, "the temperature is %g; allowed are 0 and finite numbers above it",
                   s.temperature);
  }
  if (!(s.top_p > 0.0) || s.top_p > 1.0) {
    return failure(Code::input_shape, Section::file, "top_p is %g; allowed are numbers above 0 and up to 1", s.top_p);
  }
  return {};
}

}  // namespace

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) noexcept {
  uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  std::copy(c, c + 4, out);
}

Status sample_logits(const float* logits, size_t count, const Sampling& sampling, uint64_t draw, uint32_t& token) {
  ALCOVE_TRY(check(count, sampling));
  uint32_t first = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!(logits[i] <= std::numeric_limits<float>::max())) {
      return failure(Code::input_index, Section::file, "logit %zu is %g: there is no choice among these", i,
                     static_cast<double>(logits[i]));
    }
    if (logits[i] > logits[first]) first = static_cast<uint32_t>(i);
  }
  token = first;
  if (sampling.temperature == 0.0 || logits[first] == kLowest) return {};
  // What stays is what has this rank or a higher one.
  uint64_t lowest = 0;
  std::vector<uint64_t> ranks;
  if (sampling.top_k > 0 || sampling.top_p < 1.0) {
    ranks.resize(count);
    for (size_t i = 0; i < count; ++i) ranks[i] = rank_of(logits[i], static_cast<uint32_t>(i));
    if (sampling.top_k > 0 && sampling.top_k < count) {
      std::nth_element(ranks.begin(), ranks.begin() + (sampling.top_k - 1), ranks.end(), std::greater<>());
      ranks.resize(sampling.top_k);
      lowest = ranks.back();
    }
  }
  const double inverse = 1.0 / sampling.temperature;
  std::vector<uint64_t> weights(count);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (rank_of(logits[i], static_cast<uint32_t>(i)) < lowest) continue;
    weights[i] = weight_of(logits[i], logits[first], inverse);
    sum += weights[i];
  }
  if (sampling.top_p < 1.0) {
    const uint64_t enough = multiply_high(static_cast<uint64_t>(sampling.top_p * 0x1p32) << 32, sum);
    std::make_heap(ranks.begin(), ranks.end());
    sum = 0;
    do {
      std::pop_heap(ranks.begin(), ranks.end());
      lowest = ranks.back();
      ranks.pop_back();
      sum += weights[index_of(lowest)];
    } while (sum < enough && !ranks.empty());
  }
  const uint32_t counter[4] = {static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), 0, 0};
  const uint32_t key[2] = {static_cast<uint32_t>(sampling.seed), static_cast<uint32_t>(sampling.seed >> 32)};
  uint32_t bits[4];
  philox(counter, key, bits);
  const uint64_t point = multiply_high(uint64_t{bits[1]} << 32 | bits[0], sum);
  uint64_t seen = 0;
  for (size_t i = 0; i < count; ++i) {
    if (rank_of(logits[i], static_cast<uint32_t>(i)) < lowest) continue;
    seen += weights[i];
    if (seen > point) {
      token = static_cast<uint32_t>(i);
      return {};
    }
  }
  return {};
}

}  // namespace alcove
