// The third step of a tokenizer: the tokens of a word, by its model.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/microkernels/tokenize/table.h"

namespace alcove::kernels::tokens {

// Takes tokens until it is full.
class Output {
 public:
  Output(const Table& table, int64_t* ids, size_t capacity, const std::atomic<bool>* is_cancelled) noexcept
      : table_(table), ids_(ids), capacity_(capacity), is_cancelled_(is_cancelled) {}

  [[nodiscard]] bool is_full() const noexcept { return count_ == capacity_; }
  // Whether nobody waits for the tokens any more.
  [[nodiscard]] bool is_cancelled() const noexcept {
    return is_cancelled_ != nullptr && is_cancelled_->load(std::memory_order_relaxed);
  }
  [[nodiscard]] size_t count() const noexcept { return count_; }
  void add(uint32_t id) noexcept {
    if (is_full()) return;
    follows_unknown_ = false;
    ids_[count_++] = table_.bound(id);
  }
  // A character, or a word, that no piece spells: the tokens of its bytes, or the unknown token, or nothing.
  void add_unknown(std::string_view text) noexcept;
  // Unknown tokens are not fused over the end of a word.
  void end_word() noexcept { follows_unknown_ = false; }

 private:
  const Table& table_;
  int64_t* ids_;
  size_t capacity_, count_ = 0;
  const std::atomic<bool>* is_cancelled_;
  bool follows_unknown_ = false;
};

// `work` has room for 28 bytes for each byte of the word, and 64 more; it is aligned to 8.
void byte_pair(const Table& table, std::string_view word, uint8_t* work, Output& output) noexcept;
void unigram(const Table& table, std::string_view word, uint8_t* work, Output& output) noexcept;
void word_piece(const Table& table, std::string_view word, uint8_t* work, Output& output) noexcept;

}  // namespace alcove::kernels::tokens
