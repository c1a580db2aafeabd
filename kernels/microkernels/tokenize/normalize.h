// The first step of a tokenizer: what is replaced, dropped and spaced, before the text is split.
#pragma once

#include <cstring>

#include "kernels/microkernels/tokenize/models.h"
#include "kernels/utf8.h"

namespace alcove::kernels::tokens {

inline constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581

// Writes normalized text into `out`, until a piece of it does not fit.
class Normalizer {
 public:
  Normalizer(const Table& table, uint8_t* out, size_t capacity) noexcept
      : table_(table), out_(out), capacity_(capacity), space_(table.has(kMarkSpaces) ? kMark : std::string_view(" ")) {}

  // Reads the whole text, or as much as has room; returns false, and where, at a malformed sequence.
  [[nodiscard]] bool run(const uint8_t* text, size_t size, const Output& output, size_t& position) noexcept {
    position = 0;
    while (position < size && !is_full_ && !output.is_cancelled()) {
      uint32_t code_point = 0;
      const size_t length = decode_utf8(text + position, size - position, code_point);
      if (length == 0) return false;
      const size_t taken = replace(text + position, size - position);
      if (taken == 0) add(code_point, {reinterpret_cast<const char*>(text) + position, length});
      position += taken == 0 ? length : taken;
    }
    return true;
  }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  // Replaces the longest key that the text begins with; returns its length, 0 if there is none.
  size_t replace(const uint8_t* text, size_t size) noexcept {
    if (table_.keys.size() == 0) return 0;
    Walk walk(table_.keys);
    size_t longest = 0;
    uint32_t found = kNoToken;
    for (size_t i = 0; i < size && walk.step(text[i]); ++i) {
      const uint32_t match = walk.match();
      if (match == kNoToken) continue;
      longest = i + 1;
      found = match;
    }
    if (found == kNoToken || is_inside(text, size, longest)) return 0;
    const std::string_view value = table_.replacements[found];
    const auto* bytes = reinterpret_cast<const uint8_t*>(value.data());
    for (size_t i = 0; i < value.size();) {
      uint32_t code_point = 0;
      const size_t length = decode_utf8(bytes + i, value.size() - i, code_point);
      if (length == 0) break;
      add(code_point, value.substr(i, length));
      i += length;
    }
    return longest;
  }
  // Whether a key of an ill-made table ends within a character.
  static bool is_inside(const uint8_t* text, size_t size, size_t at) noexcept {
    return at < size && (text[at] & 0xC0) == 0x80;
  }

  void add(uint32_t code_point, std::string_view bytes) noexcept {
    if (is_full_) return;
    const uint8_t property = table_.property(code_point);
    if ((property & kDropped) != 0) return;
    if ((property & kSpace) != 0 && table_.has(kCollapseSpaces)) {
      pending_ = size_ > 0;
      return;
    }
    if ((property & kIdeograph) != 0 && table_.has(kPadIdeographs)) {
      last_ = 0;
      write(" ");
      write(bytes);
      return write(" ");
    }
    if (table_.has(kDecomposeHangul) && code_point >= 0xAC00 && code_point < 0xD7A4) return add_letters(code_point);
    if (size_ == 0) begin(code_point);
    if (pending_) {
      write(space_);
      last_ = 0;
    }
    pending_ = false;
    if (table_.has(kComposeHangul) && compose(code_point)) return;
    last_ = code_point;
    write(code_point == ' ' ? space_ : bytes);
  }
  void begin(uint32_t code_point) noexcept {
    const bool is_there = code_point == ' ' || (code_point == 0x2581 && table_.has(kMarkSpaces));
    if (table_.has(kPrepend) || (table_.has(kPrependUnlessThere) && !is_there)) write(space_);
  }
  // Unicode 3.12: a syllable is two or three letters.
  void add_letters(uint32_t syllable) noexcept {
    last_ = 0;
    const uint32_t index = syllable - 0xAC00;
    const uint32_t letters[] = {0x1100 + index / 588, 0x1161 + index % 588 / 28, 0x11A7 + index % 28};
    for (size_t i = 0; i < (index % 28 == 0 ? 2u : 3u); ++i) {
      uint8_t bytes[4];
      const size_t length = encode_utf8(letters[i], bytes);
      write({reinterpret_cast<const char*>(bytes), length});
    }
  }
  // Joins a vowel to the consonant that was written last, or a last consonant to such a syllable (Unicode 3.12).
  bool compose(uint32_t code_point) noexcept {
    uint32_t syllable = 0;
    if (last_ - 0x1100 < 19 && code_point - 0x1161 < 21) {
      syllable = 0xAC00 + ((last_ - 0x1100) * 21 + code_point - 0x1161) * 28;
    } else if (last_ - 0xAC00 < 11172 && (last_ - 0xAC00) % 28 == 0 && code_point - 0x11A8 < 27) {
      syllable = last_ + code_point - 0x11A7;
    }
    if (syllable == 0) return false;
    encode_utf8(syllable, out_ + size_ - 3);  // all of these have three bytes
    last_ = syllable;
    return true;
  }
  void write(std::string_view bytes) noexcept {
    if (is_full_ || bytes.size() > capacity_ - size_) {
      is_full_ = true;
      return;
    }
    std::memcpy(out_ + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }

  const Table& table_;
  uint8_t* out_;
  size_t capacity_, size_ = 0;
  std::string_view space_;
  uint32_t last_ = 0;  // the code point that `add` wrote last, whose bytes are the last of `out_`
  bool pending_ = false, is_full_ = false;
};

}  // namespace alcove::kernels::tokens
