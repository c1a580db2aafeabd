// Text to normalization form C, a character at a time: what is composed already passes through one character late.
// Source: Unicode Standard Annex #15, and section 3.11 of the standard (D108 to D117).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/ngram_hash/composition_table.h"

namespace alcove::kernels {

// Gives composed characters to `Sink::take(uint32_t)`.  At most `kMost` characters are composed with each other: a longer
// run of marks, which no language has, is cut there.
template <typename Sink>
class Composer {
 public:
  Composer(const CompositionTable& table, Sink& sink) noexcept : table_(table), sink_(sink) {}

  void add(uint32_t c) noexcept { add_part(c, 0); }

  void flush() noexcept {
    if (is_loose_) normalize();
    for (size_t i = 0; i < count_; ++i) sink_.take(held_[i].code_point);
    count_ = 0;
    is_loose_ = false;
  }

 private:
  static constexpr size_t kMost = 32;
  static constexpr int kDeepest = 4;  // of decompositions of decompositions

  struct Held {
    uint32_t code_point;
    uint8_t rank;
  };

  void add_special(uint32_t c, uint8_t kind, int depth) noexcept {
    uint32_t first = 0, second = 0;
    if ((kind & CompositionTable::kDecomposes) != 0 && depth < kDeepest && table_.decompose(c, first, second)) {
      add_part(first, depth + 1);
      if (second != 0) add_part(second, depth + 1);
      return;
    }
    const uint8_t rank = kind & CompositionTable::kRank;
    if (rank == 0 && (kind & CompositionTable::kMayJoin) == 0) flush();
    if (count_ >= kMost) flush();
    is_loose_ |= (kind & CompositionTable::kMayJoin) != 0 || (count_ != 0 && rank < held_[count_ - 1].rank);
    held_[count_++] = {c, rank};
  }

  void add_part(uint32_t c, int depth) noexcept {
    const uint8_t kind = c < 0x300 ? 0 : table_.kind(c);
    if (kind != 0) return add_special(c, kind, depth);
    if (count_ == 1 && !is_loose_) {  // nearly always: what is composed already passes through
      sink_.take(held_[0].code_point);
    } else {
      flush();
    }
    held_[0] = {c, 0};
    count_ = 1;
  }

  // Decomposes the first character, puts marks in order, and composes.
  void normalize() noexcept {
    Held all[kMost + kDeepest];  // `add_special` holds at most `kMost`
    size_t count = 0;
    expand(held_[0], all, count);
    for (size_t i = 1; i < count_; ++i) {
      size_t at = count++;
      for (; held_[i].rank != 0 && at > 0 && all[at - 1].rank > held_[i].rank; --at) all[at] = all[at - 1];
      all[at] = held_[i];
    }
    // `start` is the character that others may join, `last` the rank of what stands between.
    size_t kept = 1, start = 0;
    bool has_start = all[0].rank == 0;
    for (size_t i = 1; i < count; ++i) {
      const bool is_free = kept == start + 1 || all[kept - 1].rank < all[i].rank;
      const uint32_t joined = has_start && is_free ? table_.compose(all[start].code_point, all[i].code_point) : 0;
      if (joined != 0) {
        all[start].code_point = joined;
        continue;
      }
      if (all[i].rank == 0) {
        start = kept;
        has_start = true;
      }
      all[kept++] = all[i];
    }
    count_ = kept;
    for (size_t i = 0; i < kept; ++i) held_[i] = all[i];
  }

  // Writes what a character consists of, at most `kDeepest` + 1 characters.
  void expand(const Held& whole, Held* all, size_t& count) noexcept {
    uint32_t tail[kDeepest];
    size_t tails = 0;
    uint32_t c = whole.code_point, first = 0, second = 0;
    for (int depth = 0; depth < kDeepest && table_.decompose(c, first, second); ++depth) {
      if (second != 0) tail[tails++] = second;
      c = first;
    }
    all[count++] = {c, tails == 0 ? whole.rank : static_cast<uint8_t>(table_.kind(c) & CompositionTable::kRank)};
    while (tails > 0) {
      const uint32_t part = tail[--tails];
      all[count++] = {part, static_cast<uint8_t>(table_.kind(part) & CompositionTable::kRank)};
    }
  }

  const CompositionTable& table_;
  Sink& sink_;
  Held held_[kMost + kDeepest] = {};  // a character and the marks behind it
  size_t count_ = 0;
  bool is_loose_ = false;  // whether what is held may not be in normalization form C
};

}  // namespace alcove::kernels
