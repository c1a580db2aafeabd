// Text to the hashed ids of its character n-grams and words.  The exact rule: README.md beside this file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

// Longest n-gram, in characters, boundary markers included.
inline constexpr int32_t kNgramMaxOrder = 8;

struct NgramHashParams {
  int32_t min_order;               // 1 <= min_order <= max_order
  int32_t max_order;               // <= kNgramMaxOrder
  uint32_t buckets;                // 1 <= buckets <= 2^31 - 1; ids are in [0, buckets)
  uint64_t seed;                   // any
  const uint8_t* table = nullptr;  // composes text first (README.md, "Table"); null: text is hashed as it is
  size_t table_size = 0;
};

// Whether `params` are in range.  `ngram_hash` relies on it: the program verifier and every binding check first.
// The bytes of a table are checked in the run.
[[nodiscard]] constexpr bool is_valid(const NgramHashParams& params) noexcept {
  return params.min_order >= 1 && params.min_order <= params.max_order && params.max_order <= kNgramMaxOrder &&
         params.buckets >= 1 && params.buckets <= 0x7fffffffu;
}

enum class NgramHashStatus : int32_t { ok = 0, invalid_utf8 = 1, invalid_table = 2 };

struct [[nodiscard]] NgramHashResult {
  NgramHashStatus status;
  size_t position;  // invalid_utf8: offset of the first byte of the first malformed sequence; ok: bytes read
  size_t
      count;  // ids written, each below `buckets`; with invalid_utf8 they are of the text before `position` and mean nothing
};

// Writes at most `capacity` ids of `text` to `ids`, in the order of the README, and stops reading once it is full:
// what comes after is neither hashed nor validated.  `text` may be null when `size` is 0, `ids` when `capacity` is 0.
// Reads no byte outside [text, text + size); allocates nothing; keeps no state, so any number of threads may call it.
NgramHashResult ngram_hash(const uint8_t* text, size_t size, const NgramHashParams& params, int32_t* ids,
                           size_t capacity) noexcept;

}  // namespace alcove::kernels
