// The one type for sizes that come from a file: once something has overflowed, it stays invalid.
#pragma once

#include <cstdint>

namespace alcove {

class Checked {
 public:
  constexpr Checked(uint64_t value) noexcept : value_(value) {}  // NOLINT: a plain number is a valid size

  constexpr Checked operator+(Checked other) const noexcept {
    Checked result(0);
    result.is_valid_ = !__builtin_add_overflow(value_, other.value_, &result.value_) && is_valid_ && other.is_valid_;
    return result;
  }
  constexpr Checked operator*(Checked other) const noexcept {
    Checked result(0);
    result.is_valid_ = !__builtin_mul_overflow(value_, other.value_, &result.value_) && is_valid_ && other.is_valid_;
    return result;
  }
  // Rounded up to a multiple of `alignment`, a power of two.
  constexpr Checked aligned(uint64_t alignment) const noexcept {
    Checked result = *this + (alignment - 1);
    result.value_ &= ~(alignment - 1);
    return result;
  }

  // False for anything that overflowed.
  constexpr bool is_at_most(uint64_t bound) const noexcept { return is_valid_ && value_ <= bound; }
  constexpr bool is(uint64_t value) const noexcept { return is_valid_ && value_ == value; }

  // Precondition: is_at_most() or is() has returned true.
  constexpr uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_;
  bool is_valid_ = true;
};

}  // namespace alcove
