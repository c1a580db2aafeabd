// Widens many floats of 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove {

// Of `count` numbers in float16, or bfloat16; `from` needs no alignment.  It may lie in the second half of what is written: numbers are
// read before their place is.
void widen(const uint8_t* from, bool is_f16, size_t count, float* to) noexcept;

}  // namespace alcove
