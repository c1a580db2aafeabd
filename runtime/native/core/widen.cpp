#include "core/widen.h"

#include <bit>
#include <cstring>

#include "kernels/half.h"

namespace alcove {

namespace {

// Of few at a time, so that the compiler may read them all before it writes one.
constexpr size_t kTogether = 16;

template <float (*kWiden)(uint16_t) noexcept>
void widen_block(const uint8_t* from, float* to) noexcept {
  uint16_t halves[kTogether];
  uint32_t bits[kTogether];
  std::memcpy(halves, from, sizeof halves);
  for (size_t i = 0; i < kTogether; ++i) bits[i] = std::bit_cast<uint32_t>(kWiden(halves[i]));
  std::memcpy(to, bits, sizeof bits);
}

template <float (*kWiden)(uint16_t) noexcept>
void widen_all(const uint8_t* from, size_t count, float* to) noexcept {
  for (; count >= kTogether; count -= kTogether, from += kTogether * sizeof(uint16_t), to += kTogether)
    widen_block<kWiden>(from, to);
  uint8_t rest[kTogether * sizeof(uint16_t)] = {};
  float floats[kTogether];
  if (count == 0) return;
  std::memcpy(rest, from, count * sizeof(uint16_t));
  widen_block<kWiden>(rest, floats);
  std::memcpy(to, floats, count * sizeof(float));
}

}  // namespace

void widen(const uint8_t* from, bool is_f16, size_t count, float* to) noexcept {
  is_f16 ? widen_all<kernels::widen_f16>(from, count, to) : widen_all<kernels::widen_bf16>(from, count, to);
}

}  // namespace alcove
