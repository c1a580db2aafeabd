#include "core/widen.h"

#include <cstring>

#include "kernels/half.h"

namespace alcove {

namespace {

// Of few at a time, so that the compiler may read them all before it writes one.
constexpr size_t kTogether = 16;

template <float (*kWiden)(uint16_t) noexcept>
void widen_all(const uint8_t* from, size_t count, float* to) noexcept {
  while (count > 0) {
    const size_t here = count < kTogether ? count : kTogether;
    uint16_t halves[kTogether] = {};
    float floats[kTogether];
    std::memcpy(halves, from, here * sizeof(uint16_t));
    for (size_t i = 0; i < kTogether; ++i) floats[i] = kWiden(halves[i]);
    std::memcpy(to, floats, here * sizeof(float));
    from += here * sizeof(uint16_t);
    to += here;
    count -= here;
  }
}

}  // namespace

void widen(const uint8_t* from, bool is_f16, size_t count, float* to) noexcept {
  is_f16 ? widen_all<kernels::widen_f16>(from, count, to) : widen_all<kernels::widen_bf16>(from, count, to);
}

}  // namespace alcove
