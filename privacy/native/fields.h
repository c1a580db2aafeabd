// The two prime fields of Prio3. Elements are in a form of the field's own; `read` and `write` convert.
// `privacy/prio3/fields.py` is the readable form.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace alcove::privacy {

__extension__ using Wide = unsigned __int128;

inline uint64_t load_le64(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | bytes[i];
  return word;
}

inline void store_le64(uint64_t word, uint8_t* bytes) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * i));
}

// p = 2^64 - 2^32 + 1; canonical elements.
struct Field64 {
  static constexpr size_t kBytes = 8;
  static constexpr int kLogOrder = 32;
  static constexpr uint64_t kModulus = 0xFFFFFFFF00000001;

  uint64_t value = 0;

  static Field64 from(uint64_t integer) { return {integer % kModulus}; }
  // Whether the bytes are below the modulus; `element` is written in any case.
  static bool read(const uint8_t* bytes, Field64& element) {
    element.value = load_le64(bytes);
    return element.value < kModulus;
  }
  void write(uint8_t* bytes) const { store_le64(value, bytes); }
  static Field64 generator() { return Field64{7}.power({4294967295, 0}); }
  static std::array<uint64_t, 2> inversion_exponent() { return {kModulus - 2, 0}; }

  Field64 operator+(Field64 other) const {
    const Wide sum = static_cast<Wide>(value) + other.value;
    const uint64_t low = static_cast<uint64_t>(sum) - kModulus;
    return {(sum >= kModulus) ? low : static_cast<uint64_t>(sum)};
  }
  Field64 operator-(Field64 other) const {
    const uint64_t difference = value - other.value;
    return {value < other.value ? difference + kModulus : difference};
  }
  Field64 operator*(Field64 other) const {
    // 2^64 = 2^32 - 1 and 2^96 = -1 modulo p.
    const Wide product = static_cast<Wide>(value) * other.value;
    const auto low = static_cast<uint64_t>(product);
    const auto high = static_cast<uint64_t>(product >> 64);
    const uint64_t top = high >> 32;
    const uint64_t middle = (high & 0xFFFFFFFF) * 0xFFFFFFFF;
    const Field64 first = {low < kModulus ? low : low - kModulus};
    return first - Field64{top} + Field64{middle};  // (2^32 - 1)^2 is below p
  }
  bool operator==(const Field64&) const = default;

  Field64 power(std::array<uint64_t, 2> exponent) const;
};

// p = 2^128 - 7 * 2^66 + 1; elements times 2^128 (Montgomery's form). The low word of p is 1, which saves products.
struct Field128 {
  static constexpr size_t kBytes = 16;
  static constexpr int kLogOrder = 66;
  static constexpr uint64_t kHigh = 0xFFFFFFFFFFFFFFE4;  // the low word is 1

  uint64_t low = 0;
  uint64_t high = 0;

  static Field128 from(uint64_t integer) { return Field128{integer, 0} * square_of_radix(); }
  static bool read(const uint8_t* bytes, Field128& element) {
    const Field128 canonical = {load_le64(bytes), load_le64(bytes + 8)};
    element = canonical * square_of_radix();
    return canonical.is_below_modulus();
  }
  void write(uint8_t* bytes) const {
    const Field128 canonical = *this * Field128{1, 0};
    store_le64(canonical.low, bytes);
    store_le64(canonical.high, bytes + 8);
  }
  static Field128 generator() { return from(7).power({4611686018427387897, 0}); }
  static std::array<uint64_t, 2> inversion_exponent() { return {0xFFFFFFFFFFFFFFFF, kHigh - 1}; }

  Field128 operator+(Field128 other) const {
    const Wide low_sum = static_cast<Wide>(low) + other.low;
    const Wide high_sum = static_cast<Wide>(high) + other.high + static_cast<uint64_t>(low_sum >> 64);
    return reduce(static_cast<uint64_t>(low_sum), static_cast<uint64_t>(high_sum),
                  static_cast<uint64_t>(high_sum >> 64));
  }
  Field128 operator-(Field128 other) const {
    const uint64_t low_borrow = low < other.low;
    const uint64_t low_difference = low - other.low;
    const Wide taken = static_cast<Wide>(other.high) + low_borrow;
    const uint64_t high_difference = high - static_cast<uint64_t>(taken);
    const uint64_t mask = -static_cast<uint64_t>(high < taken);  // all ones where p is to be added
    const Wide low_sum = static_cast<Wide>(low_difference) + (mask & 1);
    return {static_cast<uint64_t>(low_sum), high_difference + (mask & kHigh) + static_cast<uint64_t>(low_sum >> 64)};
  }
  Field128 operator*(Field128 other) const {
    const Wide p00 = static_cast<Wide>(low) * other.low;
    const Wide p01 = static_cast<Wide>(low) * other.high;
    const Wide p10 = static_cast<Wide>(high) * other.low;
    const Wide p11 = static_cast<Wide>(high) * other.high;
    const Wide middle = (p00 >> 64) + static_cast<uint64_t>(p01) + static_cast<uint64_t>(p10);
    const Wide upper = (middle >> 64) + (p01 >> 64) + (p10 >> 64) + static_cast<uint64_t>(p11);
    uint64_t t0 = static_cast<uint64_t>(p00), t1 = static_cast<uint64_t>(middle), t2 = static_cast<uint64_t>(upper);
    uint64_t t3 = static_cast<uint64_t>(p11 >> 64) + static_cast<uint64_t>(upper >> 64);
    uint64_t t4 = 0;
    divide_by_word(t0, t1, t2, t3, t4);
    uint64_t t5 = 0;
    divide_by_word(t1, t2, t3, t4, t5);
    return reduce(t2, t3, t4);
  }
  bool operator==(const Field128&) const = default;

  Field128 power(std::array<uint64_t, 2> exponent) const;

 private:
  bool is_below_modulus() const { return high < kHigh || (high == kHigh && low < 1); }
  // 2^256 modulo p.
  static constexpr Field128 square_of_radix() { return {0xFFFFFFFFFFFFFCF1, 0x5587}; }

  // Adds the multiple of p that makes the lowest word zero: -t0 times (1, kHigh).
  static void divide_by_word(uint64_t t0, uint64_t& t1, uint64_t& t2, uint64_t& t3, uint64_t& t4) {
    const Wide product = static_cast<Wide>(-t0) * kHigh;
    Wide sum = static_cast<Wide>(t1) + static_cast<uint64_t>(product) + (t0 != 0);
    t1 = static_cast<uint64_t>(sum);
    sum = static_cast<Wide>(t2) + static_cast<uint64_t>(product >> 64) + static_cast<uint64_t>(sum >> 64);
    t2 = static_cast<uint64_t>(sum);
    sum = static_cast<Wide>(t3) + static_cast<uint64_t>(sum >> 64);
    t3 = static_cast<uint64_t>(sum);
    t4 += static_cast<uint64_t>(sum >> 64);
  }

  // Takes p away once where the value of three words is not below it.
  static Field128 reduce(uint64_t low, uint64_t high, uint64_t over) {
    const uint64_t low_less = low - 1;
    const uint64_t borrow = low < 1;
    const Wide taken = static_cast<Wide>(kHigh) + borrow;
    const uint64_t high_less = high - static_cast<uint64_t>(taken);
    const bool is_less = over == 0 && high < taken;
    return {is_less ? low : low_less, is_less ? high : high_less};
  }
};

template <typename F>
F power_of(F base, std::array<uint64_t, 2> exponent) {
  F result = F::from(1);
  for (int bit = 127; bit >= 0; --bit) {
    result = result * result;
    if (exponent[bit / 64] >> (bit % 64) & 1) result = result * base;
  }
  return result;
}

inline Field64 Field64::power(std::array<uint64_t, 2> exponent) const { return power_of(*this, exponent); }
inline Field128 Field128::power(std::array<uint64_t, 2> exponent) const { return power_of(*this, exponent); }

}  // namespace alcove::privacy
