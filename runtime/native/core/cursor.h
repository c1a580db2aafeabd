// Reads records and strings for the passes over tables.
#pragma once

#include <cinttypes>
#include <cstring>

#include "core/verify.h"

namespace alcove {

// Reads records, then strings, of a private copy whose size was checked against the counts.
class Cursor {
 public:
  Cursor(const uint8_t* data, uint64_t strings, uint64_t size) : data_(data), string_(strings), size_(size) {}

  template <typename Record>
  Record next() {
    Record record;
    std::memcpy(&record, data_ + position_, sizeof(record));
    position_ += sizeof(record);
    return record;
  }

  // The next `bytes` of the strings, in the order of the records that own them.
  Status text(uint32_t bytes, uint32_t cap, const char* what, std::string_view& result) {
    if (bytes > cap) {
      return failure(Code::string_limit, Section::program, "%s has %" PRIu32 " bytes, the cap is %" PRIu32, what, bytes,
                     cap);
    }
    if (bytes > size_ - string_) {
      return failure(Code::program_size, Section::program, "%s of %" PRIu32 " bytes ends beyond the section", what,
                     bytes);
    }
    result = std::string_view(reinterpret_cast<const char*>(data_ + string_), bytes);
    string_ += bytes;
    if (!is_printable_utf8(result)) {
      return failure(Code::string_text, Section::program, "%s is not printable UTF-8", what);
    }
    return {};
  }

  uint64_t strings_left() const { return size_ - string_; }

 private:
  const uint8_t* data_;
  uint64_t position_ = 0;
  uint64_t string_;
  uint64_t size_;
};

template <typename T, size_t kCount>
bool is_zero_from(const T (&slots)[kCount], size_t first) {
  for (size_t i = first; i < kCount; ++i) {
    if (slots[i] != 0) return false;
  }
  return true;
}

}  // namespace alcove
