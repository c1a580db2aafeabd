// The unigram model: of all ways to divide a word into pieces the one with the greatest sum of scores (Viterbi).
#include <limits>

#include "kernels/microkernels/tokenize/models.h"
#include "kernels/utf8.h"

namespace alcove::kernels::tokens {

namespace {

// Taken from the least score for a character without a piece, as SentencePiece does.
constexpr double kUnknownPenalty = 10.0;

// The best way to a place of the word.
struct Best {
  double score;
  uint32_t from;
  uint32_t id;
};

}  // namespace

void unigram(const Table& table, std::string_view word, uint8_t* work, Output& output) noexcept {
  auto* best = reinterpret_cast<Best*>(work);
  const size_t size = word.size();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i <= size; ++i) best[i] = {kNone, 0, kNoToken};
  best[0].score = 0.0;
  const bool is_single = table.has(kSingleSums);
  const double unknown = table.scores[table.scores.size() - 1] - kUnknownPenalty;  // the last is the least of all

  const auto offer = [&](size_t from, size_t to, double score, uint32_t id) noexcept {
    double sum = best[from].score + score;
    if (is_single) sum = static_cast<float>(sum);
    if (sum > best[to].score) best[to] = {sum, static_cast<uint32_t>(from), id};
  };
  for (size_t at = 0; at < size && !output.is_cancelled();) {
    const size_t character = utf8_length(static_cast<uint8_t>(word[at]));
    const size_t behind = at + character < size ? at + character : size;
    bool has_character = false;
    Walk walk(table.pieces);
    for (size_t end = at; end < size && walk.step(static_cast<uint8_t>(word[end]));) {
      const uint32_t id = walk.match();
      ++end;
      if (id == kNoToken) continue;
      offer(at, end, table.scores[id], id);
      has_character = has_character || end == behind;
    }
    if (!has_character) offer(at, behind, is_single ? static_cast<float>(unknown) : unknown, kNoToken);
    at = behind;
  }

  // The way back, turned round in place: `from` of a place on the way becomes where the next piece ends.
  size_t at = size, to = size;
  while (at > 0) {
    const size_t from = best[at].from;
    if (from >= at) break;  // scores that are no numbers
    best[at].from = static_cast<uint32_t>(to);
    to = at;
    at = from;
  }
  for (at = 0; at < size;) {
    const size_t end = to > at && to <= size ? to : size;
    if (best[end].id == kNoToken) {
      output.add_unknown(word.substr(at, end - at));
    } else {
      output.add(best[end].id);
    }
    to = best[end].from;
    at = end;
  }
}

}  // namespace alcove::kernels::tokens
