// Checks that text is printable UTF-8, which programs may hold and errors may quote.
#include "core/verify.h"

namespace alcove {

bool is_printable_utf8(std::string_view text) noexcept {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const auto* end = p + text.size();
  while (p < end) {
    const uint8_t first = *p++;
    if (first < 0x80) {
      if (first < 0x20 || first == 0x7F) return false;
      continue;
    }
    // Unicode, table 3-7: how many bytes follow, and the range of the first of them.
    int follow = 0;
    uint8_t low = 0x80, high = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
      follow = 1;
      if (first == 0xC2) low = 0xA0;  // U+0080 to U+009F are controls
    } else if (first >= 0xE0 && first <= 0xEF) {
      follow = 2;
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
      follow = 3;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (end - p < follow) return false;
    for (int i = 0; i < follow; ++i, low = 0x80, high = 0xBF) {
      const uint8_t next = *p++;
      if (next < low || next > high) return false;
    }
  }
  return true;
}

}  // namespace alcove
