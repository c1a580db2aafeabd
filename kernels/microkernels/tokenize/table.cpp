// Opens the table of a tokenizer.
#include "kernels/microkernels/tokenize/table.h"

namespace alcove::kernels::tokens {

namespace {

constexpr size_t kFields = 12;    // of 4 bytes, before the sections
constexpr size_t kSections = 21;  // each a pair of 4 bytes: where it begins, and how many elements it has
constexpr size_t kHeader = (kFields + 2 * kSections) * 4;

// Hands out the sections in their order.
class Sections {
 public:
  Sections(const uint8_t* data, size_t size) noexcept : data_(data), size_(size) {}

  template <typename T>
  [[nodiscard]] Numbers<T> next() noexcept {
    const Numbers<uint32_t> pairs(data_ + kFields * 4, 2 * kSections);
    const uint64_t offset = pairs[2 * at_], count = pairs[2 * at_ + 1];
    ++at_;
    fits_ = fits_ && offset <= size_ && count * sizeof(T) <= size_ - offset;
    return fits_ ? Numbers<T>(data_ + offset, count) : Numbers<T>();
  }
  [[nodiscard]] Strings next_strings() noexcept {
    const Numbers<uint32_t> starts = next<uint32_t>();
    const size_t at = at_;
    const Numbers<uint8_t> bytes = next<uint8_t>();
    const Numbers<uint32_t> pairs(data_ + kFields * 4, 2 * kSections);
    return fits_ ? Strings(starts, data_ + pairs[2 * at], bytes.size()) : Strings();
  }
  [[nodiscard]] Trie next_trie() noexcept {
    const Numbers<uint32_t> starts = next<uint32_t>();
    const Numbers<uint8_t> labels = next<uint8_t>();
    return {starts, labels, next<uint32_t>()};
  }
  [[nodiscard]] bool fits() const noexcept { return fits_; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  bool fits_ = true;
};

}  // namespace

bool Table::open(const uint8_t* data, size_t size) noexcept {
  if (size < kHeader) return false;
  const Numbers<uint32_t> fields(data, kFields);
  if (fields[0] != kMagic || fields[1] > 2 || fields[2] > 4) return false;
  model = static_cast<Model>(fields[1]);
  split = static_cast<Split>(fields[2]);
  flags = fields[3];
  most_digits = fields[4];
  vocabulary = fields[5];
  unknown = fields[6];
  padding = fields[7];
  prefix_count = fields[8];
  most_characters = fields[9];
  Sections sections(data, size);
  property_blocks = sections.next<uint16_t>();
  properties = sections.next<uint8_t>();
  keys = sections.next_trie();
  replacements = sections.next_strings();
  pieces = sections.next_trie();
  texts = sections.next_strings();
  scores = sections.next<double>();
  starts = sections.next<uint32_t>();
  rights = sections.next<uint32_t>();
  ranks = sections.next<uint32_t>();
  merged = sections.next<uint32_t>();
  bytes = sections.next<uint32_t>();
  continuation = sections.next_strings();
  frame = sections.next<uint32_t>();
  return sections.fits() && vocabulary > 0 && vocabulary <= 0x7FFFFFFF && prefix_count <= frame.size();
}

}  // namespace alcove::kernels::tokens
