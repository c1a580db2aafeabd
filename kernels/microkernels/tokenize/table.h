// The table of a tokenizer, read from bytes that prove nothing: every access is compared with its bound.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace alcove::kernels::tokens {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kMagic = 0x314B4F54;  // "TOK1"
inline constexpr uint32_t kNoToken = 0xFFFFFFFF;
// Of a piece or a key, in bytes; bounds the steps of a search at one place of the text.
inline constexpr size_t kLongestString = 255;

enum class Model : uint32_t { byte_pair = 0, unigram = 1, word_piece = 2 };
enum class Split : uint32_t { none = 0, gpt2 = 1, cl100k = 2, punctuation = 3, marks = 4 };

// What is done to a text before and after it is split; numbers of the form, never changed.
enum Flag : uint32_t {
  kByteLevel = 1,            // symbols of byte_pair are bytes, not characters
  kByteFallback = 2,         // a character without a piece becomes its bytes' tokens
  kFuseUnknown = 4,          // unknown tokens in a row are one
  kPrepend = 8,              // a space is put before the text
  kPrependUnlessThere = 16,  // likewise, if the text does not begin with one
  kCollapseSpaces = 32,      // white space becomes one space between words, and none at the ends
  kMarkSpaces = 64,          // a space becomes U+2581
  kPadIdeographs = 128,      // spaces are put around ideographs
  kDecomposeHangul = 256,    // syllables become their letters
  kWholeWords = 512,         // byte_pair: a word that is a piece is that token
  kSingleSums = 1024,        // unigram: sums of scores are rounded to float32
  kComposeHangul = 2048,     // letters become syllables
};

// Properties of a code point, of which the table holds those that the tokenizer asks for.
enum Property : uint8_t { kLetter = 1, kNumber = 2, kSpace = 4, kPunctuation = 8, kIdeograph = 16, kDropped = 32 };

// `count` numbers in little-endian order; beyond them all are 0.
template <typename T>
class Numbers {
 public:
  Numbers() = default;
  Numbers(const uint8_t* data, size_t count) noexcept : data_(data), count_(count) {}

  [[nodiscard]] size_t size() const noexcept { return count_; }
  [[nodiscard]] T operator[](size_t i) const noexcept {
    T value{};
    if (i < count_) std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  const uint8_t* data_ = nullptr;
  size_t count_ = 0;
};

// Strings by number.
class Strings {
 public:
  Strings() = default;
  Strings(Numbers<uint32_t> starts, const uint8_t* bytes, size_t size) noexcept
      : starts_(starts), bytes_(bytes), size_(size) {}

  [[nodiscard]] size_t size() const noexcept { return starts_.size() == 0 ? 0 : starts_.size() - 1; }
  [[nodiscard]] std::string_view operator[](size_t i) const noexcept {
    const size_t first = starts_[i], end = starts_[i + 1];
    if (i >= size() || first > end || end > size_) return {};
    return {reinterpret_cast<const char*>(bytes_) + first, end - first};
  }

 private:
  Numbers<uint32_t> starts_;
  const uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
};

// Strings with a number each, as a tree of their bytes: the children of a node stand side by side by rising byte.
struct Trie {
  Numbers<uint32_t> starts;  // where the children of each node begin
  Numbers<uint8_t> labels;   // the last byte of what each node stands for
  Numbers<uint32_t> values;  // of what each node stands for; `kNoToken` if that is no string

  [[nodiscard]] size_t size() const noexcept { return labels.size(); }
};

// Walks down a tree a byte at a time.
class Walk {
 public:
  explicit Walk(const Trie& trie) noexcept : trie_(trie) {}

  // Takes one more byte; false if no string begins so.
  [[nodiscard]] bool step(uint8_t byte) noexcept {
    if (depth_ == kLongestString) return false;
    size_t low = trie_.starts[node_], high = trie_.starts[node_ + 1];
    if (high > trie_.size()) high = trie_.size();
    const size_t end = high;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (trie_.labels[middle] < byte) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low >= end || trie_.labels[low] != byte) return false;
    node_ = low;
    ++depth_;
    return true;
  }
  // The number of what was read; `kNoToken` if it is no string.
  [[nodiscard]] uint32_t match() const noexcept { return depth_ == 0 ? kNoToken : trie_.values[node_]; }

 private:
  const Trie& trie_;
  size_t node_ = 0, depth_ = 0;
};

struct Table {
  Model model{};
  Split split{};
  uint32_t flags = 0, most_digits = 0, vocabulary = 0, unknown = kNoToken, padding = 0, prefix_count = 0;
  uint32_t most_characters = 0;  // WordPiece: a word of more is unknown

  Numbers<uint16_t> property_blocks;
  Numbers<uint8_t> properties;
  Trie keys;                                        // texts that are replaced; their values number what replaces them
  Strings replacements;                             // what replaces them
  Trie pieces;                                      // their values are ids
  Strings texts;                                    // of the ids, as they are written out again
  Numbers<double> scores;                           // unigram: of the ids
  Numbers<uint32_t> starts, rights, ranks, merged;  // byte_pair: merges by their left id
  Numbers<uint32_t> bytes;                          // token of each byte
  Strings continuation;                             // WordPiece: one string, what a piece within a word begins with
  Numbers<uint32_t> frame;                          // template: ids before the text, then behind it

  // Whether `data` begins as a table does and every section lies in it; reads nothing else.
  [[nodiscard]] bool open(const uint8_t* data, size_t size) noexcept;

  [[nodiscard]] bool has(Flag flag) const noexcept { return (flags & flag) != 0; }
  [[nodiscard]] uint8_t property(uint32_t code_point) const noexcept {
    return properties[size_t{property_blocks[code_point >> 8]} * 256 + (code_point & 0xFF)];
  }
  // An id of the vocabulary, whatever the table says.
  [[nodiscard]] int64_t bound(uint32_t id) const noexcept { return id < vocabulary ? id : 0; }
  // The token of a piece; `kNoToken` if it is none.
  [[nodiscard]] uint32_t find(std::string_view text) const noexcept {
    Walk walk(pieces);
    for (const char c : text) {
      if (!walk.step(static_cast<uint8_t>(c))) return kNoToken;
    }
    return walk.match();
  }
};

}  // namespace alcove::kernels::tokens
