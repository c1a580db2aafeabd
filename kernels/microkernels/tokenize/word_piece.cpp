// WordPiece: the longest piece that a word begins with, then the longest that what is left continues with.
#include "kernels/microkernels/tokenize/models.h"
#include "kernels/utf8.h"

namespace alcove::kernels::tokens {

namespace {

// The token of the longest piece at the beginning of a text, and the bytes of the text that it spells.
uint32_t longest(const Table& table, std::string_view prefix, std::string_view text, size_t& length) noexcept {
  uint32_t found = kNoToken;
  Walk walk(table.pieces);
  for (const char c : prefix) {
    if (!walk.step(static_cast<uint8_t>(c))) return kNoToken;
  }
  for (size_t i = 0; i < text.size() && walk.step(static_cast<uint8_t>(text[i])); ++i) {
    const uint32_t match = walk.match();
    if (match == kNoToken) continue;
    found = match;
    length = i + 1;
  }
  return found;
}

}  // namespace

void word_piece(const Table& table, std::string_view word, uint8_t* work, Output& output) noexcept {
  auto* ids = reinterpret_cast<uint32_t*>(work);
  size_t characters = 0, count = 0;
  for (size_t i = 0; i < word.size(); i += utf8_length(static_cast<uint8_t>(word[i]))) ++characters;
  bool is_known = characters <= table.most_characters;
  for (size_t at = 0; is_known && at < word.size() && !output.is_cancelled();) {
    size_t length = 0;
    ids[count] = longest(table, at == 0 ? std::string_view() : table.continuation[0], word.substr(at), length);
    is_known = ids[count] != kNoToken && length > 0;
    at += length;
    ++count;
  }
  if (!is_known) return output.add_unknown(word);
  for (size_t i = 0; i < count; ++i) output.add(ids[i]);
}

}  // namespace alcove::kernels::tokens
