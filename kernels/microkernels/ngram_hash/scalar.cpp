// The n-gram hash, as README.md defines it, in one pass over the bytes.
#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/ngram_hash/composer.h"
#include "kernels/microkernels/ngram_hash/composition_table.h"
#include "kernels/microkernels/ngram_hash/ngram_hash.h"
#include "kernels/utf8.h"

namespace alcove::kernels {
namespace {

#include "kernels/microkernels/ngram_hash/tables.inc"

constexpr uint32_t kBoundary = 0x20;
constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
constexpr uint64_t kWordSeed = 0xd1b54a32d192ed03u;
constexpr size_t kMaxWordId = 32;  // characters of the longest word that has an id of its own

enum class Kind { separator, joiner, word };

struct Character {
  Kind kind;
  uint32_t folded;  // of a joiner: its canonical form; of a separator: unused
};

constexpr Character classify(uint32_t c) noexcept {
  if (c < 0x80) {
    if (c - 'a' < 26) return {Kind::word, c};
    if (c - 'A' < 26) return {Kind::word, c + 32};
    return {c == '\'' ? Kind::joiner : Kind::separator, c};
  }
  if (c == 0x2019 || c == 0x02bc) return {Kind::joiner, '\''};
  if (c == 0x00b7 || c == 0x200c || c == 0x200d) return {Kind::joiner, c};
  if (c >= 0x10000) {
    const bool is_word = c < 0x1d000 || (c >= 0x1e000 && c < 0x1f000) || (c >= 0x20000 && c < 0x40000);
    return {is_word ? Kind::word : Kind::separator, c};
  }
  if (((kWordBlocks[kWordIndex[c >> 6]] >> (c & 63)) & 1) == 0) return {Kind::separator, c};
  return {Kind::word, (c + kFoldBlocks[kFoldIndex[c >> 6] * 64u + (c & 63)]) & 0xffff};
}

constexpr uint64_t step(uint64_t hash, uint32_t character) noexcept {
  hash = (hash ^ character) * kMultiplier;
  return hash ^ (hash >> 32);
}

// The hashes of the n-grams that end at the last character pushed, and of the word so far.
class Word {
 public:
  Word(const NgramHashParams& params, int32_t* ids, size_t capacity) noexcept
      : params_(params), ids_(ids), capacity_(capacity) {}

  [[nodiscard]] bool is_full() const noexcept { return count_ == capacity_; }
  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] bool is_open() const noexcept { return pushed_ != 0; }

  void add(uint32_t character) noexcept {
    if (!is_open()) {
      word_hash_ = step(params_.seed ^ kWordSeed, kBoundary);
      push(kBoundary, /*emits_single=*/false);
    }
    if (pending_joiner_ != 0) push(pending_joiner_, true);
    pending_joiner_ = 0;
    push(character, true);
  }

  // A joiner counts only between two word characters; a second one in a row ends the word.
  void join(uint32_t joiner) noexcept {
    if (!is_open()) return;
    if (pending_joiner_ != 0) {
      close();
    } else {
      pending_joiner_ = joiner;
    }
  }

  void close() noexcept {
    pending_joiner_ = 0;
    if (!is_open()) return;
    push(kBoundary, false);
    if (pushed_ > static_cast<size_t>(params_.max_order) && pushed_ <= kMaxWordId + 2) emit(word_hash_);
    pushed_ = 0;
  }

 private:
  void push(uint32_t character, bool emits_single) noexcept {
    const int32_t longest =
        pushed_ < static_cast<size_t>(params_.max_order) ? static_cast<int32_t>(pushed_) + 1 : params_.max_order;
    // hashes_[n] is that of the n characters before this one; of n + 1 with it.  Longest first, so that none is lost.
    for (int32_t order = longest; order >= 2; --order) hashes_[order] = step(hashes_[order - 1], character);
    hashes_[1] = step(params_.seed, character);
    for (int32_t order = params_.min_order; order <= longest; ++order) {
      if (order > 1 || emits_single) emit(hashes_[order]);
    }
    if (pushed_ != 0) word_hash_ = step(word_hash_, character);
    ++pushed_;
  }

  void emit(uint64_t hash) noexcept {
    if (count_ == capacity_) return;
    ids_[count_++] = static_cast<int32_t>(((hash & 0xffffffffu) * params_.buckets) >> 32);
  }

  const NgramHashParams params_;
  int32_t* const ids_;
  const size_t capacity_;
  size_t count_ = 0;
  size_t pushed_ = 0;  // characters of the open word, the boundary marker in front included; 0: no word is open
  uint32_t pending_joiner_ = 0;
  uint64_t word_hash_ = 0;
  uint64_t hashes_[kNgramMaxOrder + 1] = {};
};

// Adds code points to a word as what they are.
class Reader {
 public:
  explicit Reader(Word& word) noexcept : word_(word) {}

  // Once, not in every place that gives a character: the hash of its n-grams takes 20 times as long as the call.
  [[gnu::noinline]] void take(uint32_t code_point) noexcept {
    const Character character = classify(code_point);
    switch (character.kind) {
      case Kind::word: word_.add(character.folded); break;
      case Kind::joiner: word_.join(character.folded); break;
      case Kind::separator: word_.close(); break;
    }
  }

 private:
  Word& word_;
};

}  // namespace

NgramHashResult ngram_hash(const uint8_t* text, size_t size, const NgramHashParams& params, int32_t* ids,
                           size_t capacity) noexcept {
  CompositionTable table;
  const bool composes = params.table != nullptr;
  if (composes && !table.open(params.table, params.table_size)) return {NgramHashStatus::invalid_table, 0, 0};
  Word word(params, ids, capacity);
  Reader reader(word);
  Composer<Reader> composer(table, reader);
  size_t position = 0;
  while (position < size && !word.is_full()) {
    uint32_t code_point = 0;
    const size_t length = decode_utf8(text + position, size - position, code_point);
    if (length == 0) return {NgramHashStatus::invalid_utf8, position, word.count()};
    position += length;
    if (composes) {
      composer.add(code_point);
    } else {
      reader.take(code_point);
    }
  }
  composer.flush();
  word.close();
  return {NgramHashStatus::ok, position, word.count()};
}

}  // namespace alcove::kernels
