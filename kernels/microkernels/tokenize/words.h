// The second step of a tokenizer: the pieces of a normalized text within which its model works.
#pragma once

#include "kernels/microkernels/tokenize/normalize.h"
#include "kernels/utf8.h"

namespace alcove::kernels::tokens {

// Gives the words of a text one after another.  The text is valid UTF-8.
class Words {
 public:
  Words(const Table& table, std::string_view text) noexcept : table_(table), text_(text) {}

  // The next word; empty at the end.
  [[nodiscard]] std::string_view next() noexcept {
    switch (table_.split) {
      case Split::none: return take(text_.size());
      case Split::gpt2: return take(gpt2(at_));
      case Split::cl100k: return take(cl100k(at_));
      case Split::marks: return take(marks(at_));
      case Split::punctuation: break;
    }
    while (at_ < text_.size() && is(at_, kSpace)) at_ = after(at_);
    if (at_ == text_.size()) return {};
    if (is(at_, kPunctuation)) return take(after(at_));
    return take(skip(at_, kSpace | kPunctuation, false));
  }

 private:
  [[nodiscard]] std::string_view take(size_t end) noexcept {
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }
  [[nodiscard]] size_t after(size_t at) const noexcept {
    const size_t end = at + utf8_length(static_cast<uint8_t>(text_[at]));
    return end < text_.size() ? end : text_.size();
  }
  [[nodiscard]] uint8_t property(size_t at) const noexcept {
    uint32_t code_point = 0;
    const auto* bytes = reinterpret_cast<const uint8_t*>(text_.data()) + at;
    return decode_utf8(bytes, text_.size() - at, code_point) == 0 ? uint8_t{0} : table_.property(code_point);
  }
  [[nodiscard]] bool is(size_t at, int properties) const noexcept {
    return at < text_.size() && (property(at) & properties) != 0;
  }
  // Behind the characters from `at` on that have one of the properties, or none of them.
  [[nodiscard]] size_t skip(size_t at, int properties, bool has) const noexcept {
    while (at < text_.size() && is(at, properties) == has) at = after(at);
    return at;
  }
  [[nodiscard]] bool is_break(size_t at) const noexcept {
    return at < text_.size() && (text_[at] == '\n' || text_[at] == '\r');
  }

  // 's, 't, 're, 've, 'm, 'll, 'd: behind it, or `at`.
  [[nodiscard]] size_t contraction(size_t at, bool ignores_case) const noexcept {
    if (text_[at] != '\'') return at;
    for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      size_t i = 0;
      while (i < ending.size() && at + 1 + i < text_.size()) {
        const char c = text_[at + 1 + i];
        const bool is_upper = c >= 'A' && c <= 'Z';
        if ((ignores_case && is_upper ? static_cast<char>(c + 32) : c) != ending[i]) break;
        ++i;
      }
      if (i == ending.size()) return at + 1 + i;
    }
    return at;
  }
  // \s+(?!\S)|\s+ at white space: all of it but the last character, if something else follows two or more.
  [[nodiscard]] size_t spaces(size_t at) const noexcept {
    size_t last = at, end = at;
    while (is(end, kSpace)) {
      last = end;
      end = after(end);
    }
    return end == text_.size() || last == at ? end : last;
  }

  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  [[nodiscard]] size_t gpt2(size_t at) const noexcept {
    if (at == text_.size()) return at;
    if (const size_t end = contraction(at, false); end != at) return end;
    const size_t body = text_[at] == ' ' && at + 1 < text_.size() ? at + 1 : at;
    if (is(body, kSpace)) return spaces(at);
    if (is(body, kLetter)) return skip(body, kLetter, true);
    if (is(body, kNumber)) return skip(body, kNumber, true);
    return skip(body, kSpace | kLetter | kNumber, false);
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,most_digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
  // \s+(?!\S)|\s+
  [[nodiscard]] size_t cl100k(size_t at) const noexcept {
    if (at == text_.size()) return at;
    if (const size_t end = contraction(at, true); end != at) return end;
    const size_t second = after(at);
    if (is(at, kLetter)) return skip(at, kLetter, true);
    if (!is_break(at) && !is(at, kNumber) && is(second, kLetter)) return skip(second, kLetter, true);
    if (is(at, kNumber)) {
      size_t end = at;
      for (uint32_t i = 0; i < table_.most_digits && is(end, kNumber); ++i) end = after(end);
      return end == at ? second : end;
    }
    const size_t body = text_[at] == ' ' && at + 1 < text_.size() ? at + 1 : at;
    if (!is(body, kSpace | kLetter | kNumber)) {
      size_t end = skip(body, kSpace | kLetter | kNumber, false);
      while (is_break(end)) ++end;
      return end;
    }
    if (!is(at, kSpace)) return second;  // a table without letters
    size_t end = at, behind_break = at;
    while (is(end, kSpace)) {
      const bool breaks = is_break(end);
      end = after(end);
      if (breaks) behind_break = end;
    }
    return behind_break != at ? behind_break : spaces(at);
  }

  // Each U+2581 begins a word.
  [[nodiscard]] size_t marks(size_t at) const noexcept {
    if (at == text_.size()) return at;
    const size_t next = text_.find(kMark, at + 1);
    return next == std::string_view::npos ? text_.size() : next;
  }

  const Table& table_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace alcove::kernels::tokens
