// UTF-8, a code point at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels::tokens {

// Decodes the sequence at `text`, of which `size` >= 1 bytes may be read; returns its length, 0 if it is malformed.
// Refuses what Unicode's table 3-7 refuses: stray and missing continuation bytes, overlong forms, surrogates, > U+10FFFF.
[[nodiscard]] constexpr size_t decode(const uint8_t* text, size_t size, uint32_t& code_point) noexcept {
  const auto continues = [&](size_t i) { return i < size && (text[i] & 0xC0) == 0x80; };
  const uint32_t lead = text[0];
  code_point = lead;
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0) return 0;
  code_point = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (!continues(i)) return 0;
    code_point = code_point << 6 | (text[i] & 0x3Fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
  return code_point < kLeast[length] || code_point > 0x10FFFF || is_surrogate ? 0 : length;
}

// Writes a code point of at most U+10FFFF; returns its length.
constexpr size_t encode(uint32_t code_point, uint8_t out[4]) noexcept {
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
[[nodiscard]] constexpr size_t sequence_length(uint8_t lead) noexcept {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

}  // namespace alcove::kernels::tokens
