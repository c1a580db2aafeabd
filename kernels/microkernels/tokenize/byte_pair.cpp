// Byte-pair encoding: of all pairs of neighbours the one with the least rank is joined, the first of equals, until none is left.
#include <bit>

#include "kernels/microkernels/tokenize/models.h"
#include "kernels/utf8.h"

namespace alcove::kernels::tokens {

namespace {

constexpr uint32_t kNoRank = 0xFFFFFFFF;

// Joins symbols in O(n log n): a tournament over the ranks of pairs, whose winner is the next to be joined.
class Joiner {
 public:
  Joiner(const Table& table, uint8_t* work, size_t most) noexcept : table_(table) {
    ids_ = reinterpret_cast<uint32_t*>(work);
    previous_ = ids_ + most;
    next_ = previous_ + most;
    ranks_ = next_ + most;
  }

  void push(uint32_t id) noexcept { ids_[count_++] = id; }

  void run(const Output& output) noexcept {
    if (count_ < 2) return;
    leaves_ = std::bit_ceil(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      previous_[i] = i - 1;  // of the first: no symbol, and never read
      next_[i] = i + 1;
    }
    for (size_t i = 0; i < leaves_; ++i) ranks_[leaves_ + i] = i + 1 < count_ ? rank(ids_[i], ids_[i + 1]) : kNoRank;
    for (size_t i = leaves_ - 1; i > 0; --i) ranks_[i] = least(ranks_[2 * i], ranks_[2 * i + 1]);
    while (ranks_[1] != kNoRank && !output.is_cancelled()) join(winner());
  }

  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] uint32_t id(size_t i) const noexcept { return ids_[i]; }
  // The symbol behind symbol i; `count()` at the end.
  [[nodiscard]] size_t after(size_t i) const noexcept { return count_ < 2 ? i + 1 : next_[i]; }

 private:
  static uint32_t least(uint32_t a, uint32_t b) noexcept { return b < a ? b : a; }

  // The number of a merge; `kNoRank` if the two are never joined.
  [[nodiscard]] uint32_t find(uint32_t left, uint32_t right) const noexcept {
    size_t low = table_.starts[left], high = left < table_.starts.size() ? table_.starts[size_t{left} + 1] : 0;
    if (high > table_.rights.size()) return kNoRank;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (table_.rights[middle] < right) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool is_found =
        low < table_.rights.size() && table_.rights[low] == right && low < table_.starts[size_t{left} + 1];
    return is_found ? static_cast<uint32_t>(low) : kNoRank;
  }
  [[nodiscard]] uint32_t rank(uint32_t left, uint32_t right) const noexcept {
    const uint32_t merge = find(left, right);
    return merge == kNoRank ? kNoRank : table_.ranks[merge];
  }
  // The first symbol whose pair has the least rank.
  [[nodiscard]] size_t winner() const noexcept {
    size_t at = 1;
    while (at < leaves_) at = 2 * at + (ranks_[2 * at] == ranks_[at] ? 0 : 1);
    return at - leaves_;
  }
  void set_rank(size_t symbol, uint32_t rank) noexcept {
    size_t at = leaves_ + symbol;
    ranks_[at] = rank;
    for (at /= 2; at > 0; at /= 2) ranks_[at] = least(ranks_[2 * at], ranks_[2 * at + 1]);
  }
  void join(size_t left) noexcept {
    const size_t right = next_[left];
    ids_[left] = table_.merged[find(ids_[left], ids_[right])];
    set_rank(right, kNoRank);
    const size_t behind = next_[right];
    next_[left] = static_cast<uint32_t>(behind);
    if (behind < count_) previous_[behind] = static_cast<uint32_t>(left);
    set_rank(left, behind < count_ ? rank(ids_[left], ids_[behind]) : kNoRank);
    if (left == 0) return;
    const size_t before = previous_[left];
    set_rank(before, rank(ids_[before], ids_[left]));
  }

  const Table& table_;
  uint32_t *ids_, *previous_, *next_, *ranks_;
  size_t count_ = 0, leaves_ = 0;
};

// A character that has no token, in place of an id; the position of its first byte is added.
constexpr uint32_t kCharacter = 0x80000000;

}  // namespace

void byte_pair(const Table& table, std::string_view word, uint8_t* work, Output& output) noexcept {
  if (table.has(kWholeWords)) {
    if (const uint32_t whole = table.find(word); whole != kNoToken) return output.add(whole);
  }
  Joiner joiner(table, work, word.size());
  if (table.has(kByteLevel)) {
    for (const char c : word) joiner.push(table.bytes[static_cast<uint8_t>(c)]);
  } else {
    for (size_t i = 0; i < word.size(); i += utf8_length(static_cast<uint8_t>(word[i]))) {
      const uint32_t id = table.find(word.substr(i, utf8_length(static_cast<uint8_t>(word[i]))));
      joiner.push(id == kNoToken ? kCharacter | static_cast<uint32_t>(i) : id);
    }
  }
  joiner.run(output);
  for (size_t i = 0; i < joiner.count(); i = joiner.after(i)) {
    const uint32_t id = joiner.id(i);
    if ((id & kCharacter) == 0) {
      output.add(id);
    } else {
      const size_t at = id & ~kCharacter;
      if (at < word.size()) output.add_unknown(word.substr(at, utf8_length(static_cast<uint8_t>(word[at]))));
    }
  }
}

}  // namespace alcove::kernels::tokens
