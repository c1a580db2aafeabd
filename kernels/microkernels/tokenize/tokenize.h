// Text to the tokens of a byte-pair, unigram or WordPiece tokenizer.  The exact rule: README.md beside this file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class TokenizeStatus : int32_t { ok = 0, invalid_utf8 = 1, invalid_table = 2 };

struct [[nodiscard]] TokenizeResult {
  TokenizeStatus status;
  size_t position;  // invalid_utf8: offset of the first byte of the first malformed sequence; else the bytes read
  size_t count;     // ids in use, those of the template included; the rest of `ids` is padding
};

struct Tokenize {
  const uint8_t* text;  // may be null if `size` is 0
  size_t size;          // bytes
  const uint8_t*
      table;  // any bytes whatever: a table that is not of the form gives `invalid_table` or other ids, nothing else
  size_t table_size;
  size_t max_bytes;  // of the normalized text; a character that does not fit, and what follows, is not read
  uint8_t* scratch;  // tokenize_scratch_bytes(max_bytes), aligned to 64
  int64_t* ids;      // [capacity]; ids are in [0, vocabulary)
  size_t capacity;
  const std::atomic<bool>* is_cancelled =
      nullptr;  // set from elsewhere: the call soon returns, and its answer means nothing
};

// Of a text, for each byte of the normalized one: what is dropped from a text is bounded too.
inline constexpr size_t kTextPerByte = 4;

template <typename T>
[[nodiscard]] constexpr T tokenize_scratch_bytes(T max_bytes) noexcept {
  return max_bytes * 32 + 256;
}

// Reads at most kTextPerByte * max_bytes of the text.  Takes at each byte at most 255 steps of a search in the table, and as many
// again for the words.
// Allocates nothing; keeps no state, so any number of threads may call it.
TokenizeResult tokenize(const Tokenize& a) noexcept;

}  // namespace alcove::kernels
