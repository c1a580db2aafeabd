// How a program composes text before it hashes its n-grams.  README.md has the table's layout.  Its bytes prove nothing: `open`
// checks what the frame says, every later access its bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace alcove::kernels {

class CompositionTable {
 public:
  // Whether `data` has the form of a table; nothing else may be called where it has not.
  [[nodiscard]] bool open(const uint8_t* data, size_t size) noexcept {
    if (size < kHeader || read16(data) != kMagic) return false;
    blocks_ = read16(data + 2);
    entries_ = read16(data + 4);
    pairs_ = read16(data + 6);
    if (size != kHeader + kIndex + blocks_ * kBlock + entries_ * kEntry + pairs_ * 2) return false;
    index_ = data + kHeader;
    kinds_ = index_ + kIndex;
    decompositions_ = kinds_ + blocks_ * kBlock;
    order_ = decompositions_ + entries_ * kEntry;
    return true;
  }

  static constexpr uint8_t kRank = 63;         // place of the combining class among all, 0 for class 0
  static constexpr uint8_t kMayJoin = 64;      // may be the second of a pair that composes
  static constexpr uint8_t kDecomposes = 128;  // stands for others, whatever is around it

  // What composing needs to know of a code point; 0 for most, and for all beyond the BMP.
  [[nodiscard]] uint8_t kind(uint32_t c) const noexcept {
    if (c >= 0x10000) return 0;
    const size_t block = index_[c >> 6];
    return block < blocks_ ? kinds_[block * kBlock + (c & 63)] : 0;
  }

  // Gives what `composed` consists of, `second` 0 if one character alone; false if nothing.
  [[nodiscard]] bool decompose(uint32_t composed, uint32_t& first, uint32_t& second) const noexcept {
    size_t low = 0, high = entries_;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (entry(middle, 0) < composed) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low >= entries_ || entry(low, 0) != composed) return false;
    first = entry(low, 1);
    second = entry(low, 2);
    return true;
  }

  // What two characters compose to, 0 if they do not.
  [[nodiscard]] uint32_t compose(uint32_t first, uint32_t second) const noexcept {
    if (first - 0x1100 < 19 && second - 0x1161 < 21) return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28;
    if (first - 0xAC00 < 11172 && (first - 0xAC00) % 28 == 0 && second - 0x11A8 < 27) return first + second - 0x11A7;
    if (first >= 0x10000 || second >= 0x10000) return 0;
    const uint32_t wanted = first << 16 | second;
    size_t low = 0, high = pairs_;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (pair(middle) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < pairs_ && pair(low) == wanted ? entry(read16(order_ + 2 * low), 0) : 0;
  }

 private:
  static constexpr uint16_t kMagic = 0x434e;  // "NC"
  static constexpr size_t kHeader = 8, kIndex = 1024, kBlock = 64, kEntry = 6;

  [[nodiscard]] static uint32_t read16(const uint8_t* at) noexcept {
    uint16_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  [[nodiscard]] uint32_t entry(size_t i, size_t part) const noexcept {
    return i < entries_ ? read16(decompositions_ + i * kEntry + part * 2) : 0;
  }
  [[nodiscard]] uint32_t pair(size_t i) const noexcept {
    const size_t at = read16(order_ + 2 * i);
    return entry(at, 1) << 16 | entry(at, 2);
  }

  size_t blocks_ = 0, entries_ = 0, pairs_ = 0;
  const uint8_t *index_ = nullptr, *kinds_ = nullptr, *decompositions_ = nullptr, *order_ = nullptr;
};

}  // namespace alcove::kernels
