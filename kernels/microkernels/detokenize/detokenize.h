// Tokens to the bytes of their text.  The table: kernels/microkernels/tokenize.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class DetokenizeStatus : int32_t { ok = 0, bad_id = 1, invalid_table = 2 };

struct [[nodiscard]] DetokenizeResult {
  DetokenizeStatus status;
  size_t position;  // bad_id: which of the ids is outside the vocabulary
  size_t count;     // bytes written
  size_t needed;    // bytes that all of the text takes
  size_t vocabulary;
};

struct Detokenize {
  const int64_t* ids;  // [count]
  size_t count;
  const uint8_t* table;  // any bytes whatever
  size_t table_size;
  uint8_t* bytes;  // [capacity]; behind the text zeros.  A token whose text has no room, and what follows, is left out
  size_t capacity;
};

// Writes the texts of the tokens one behind the other: bytes, which need not be whole characters.  Allocates nothing.
DetokenizeResult detokenize(const Detokenize& a) noexcept;

}  // namespace alcove::kernels
