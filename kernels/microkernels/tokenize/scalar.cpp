// Text to tokens, as README.md defines it: normalized, split into words, and each word divided by the tokenizer's model.
#include "kernels/microkernels/tokenize/tokenize.h"

#include "kernels/microkernels/tokenize/words.h"

namespace alcove::kernels {

namespace tokens {

void Output::add_unknown(std::string_view text) noexcept {
  if (table_.has(kByteFallback)) {
    for (const char c : text) add(table_.bytes[static_cast<uint8_t>(c)]);
    return;
  }
  if (table_.unknown == kNoToken || (follows_unknown_ && table_.has(kFuseUnknown))) return;
  add(table_.unknown);
  follows_unknown_ = true;
}

// At most `size` bytes of a longer text, without part of a character.
static size_t whole_characters(const uint8_t* text, size_t size) noexcept {
  size_t end = size;
  while (end > 0 && size - end < 3 && (text[end] & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace tokens

TokenizeResult tokenize(const Tokenize& a) noexcept {
  using namespace tokens;
  Table table;
  if (!table.open(a.table, a.table_size)) return {TokenizeStatus::invalid_table, 0, 0};
  const size_t framed = table.frame.size();
  const size_t room = a.capacity > framed ? a.capacity - framed : 0;
  size_t count = 0;
  for (size_t i = 0; i < table.prefix_count && count < a.capacity; ++i) a.ids[count++] = table.bound(table.frame[i]);
  Output output(table, a.ids + count, room, a.is_cancelled);
  Normalizer normalizer(table, a.scratch, a.max_bytes);
  const size_t most = a.max_bytes * kTextPerByte;
  const size_t size = a.size <= most ? a.size : whole_characters(a.text, most);
  size_t position = 0;
  if (!normalizer.run(a.text, size, output, position)) return {TokenizeStatus::invalid_utf8, position, 0};

  Words words(table, {reinterpret_cast<const char*>(a.scratch), normalizer.size()});
  uint8_t* work = a.scratch + (a.max_bytes + 63) / 64 * 64;
  while (!output.is_full() && !output.is_cancelled()) {
    const std::string_view word = words.next();
    if (word.empty()) break;
    switch (table.model) {
      case Model::byte_pair: byte_pair(table, word, work, output); break;
      case Model::unigram: unigram(table, word, work, output); break;
      case Model::word_piece: word_piece(table, word, work, output); break;
    }
    if (table.split != Split::none) output.end_word();
  }
  count += output.count();
  for (size_t i = table.prefix_count; i < framed && count < a.capacity; ++i)
    a.ids[count++] = table.bound(table.frame[i]);
  for (size_t i = count; i < a.capacity; ++i) a.ids[i] = table.bound(table.padding);
  return {TokenizeStatus::ok, position, count};
}

}  // namespace alcove::kernels
