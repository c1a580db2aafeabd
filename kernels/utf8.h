// UTF-8, a code point at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

// Decodes the sequence at `text`, of which `size` >= 1 bytes may be read; returns its length, 0 if it is malformed.
// Refuses what Unicode's table 3-7 refuses: stray and missing continuation bytes, overlong forms, surrogates, > U+10FFFF.
[[nodiscard]] constexpr size_t decode_utf8(const uint8_t* text, size_t size, uint32_t& code_point) noexcept {
  const auto continues = [&](size_t i) { return i < size && (text[i] & 0xc0) == 0x80; };
  const uint32_t lead = text[0];
  if (lead < 0x80) {
    code_point = lead;
    return 1;
  }
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) {
    if (!continues(1)) return 0;
    code_point = (lead & 0x1f) << 6 | (text[1] & 0x3fu);
    return 2;
  }
  if (lead < 0xf0) {
    if (!continues(1) || !continues(2)) return 0;
    code_point = (lead & 0x0f) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3fu);
    return code_point < 0x800 || (code_point >= 0xd800 && code_point < 0xe000) ? 0 : 3;
  }
  if (lead < 0xf5) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    code_point = (lead & 0x07) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6 | (text[3] & 0x3fu);
    return code_point < 0x10000 || code_point > 0x10ffff ? 0 : 4;
  }
  return 0;
}

// Writes a code point of at most U+10FFFF; returns its length.
constexpr size_t encode_utf8(uint32_t code_point, uint8_t out[4]) noexcept {
  if (code_point < 0x80) {
    out[0] = static_cast<uint8_t>(code_point);
    return 1;
  }
  const size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; --i, code_point >>= 6) out[i] = static_cast<uint8_t>(0x80 | (code_point & 0x3F));
  out[0] = static_cast<uint8_t>((0xF00u >> length) | code_point);
  return length;
}

// The length of the sequence that a byte of valid UTF-8 begins.
[[nodiscard]] constexpr size_t utf8_length(uint8_t lead) noexcept {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

}  // namespace alcove::kernels
