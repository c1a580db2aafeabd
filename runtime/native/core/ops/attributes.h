// Attributes of the operators by name.
//
// The position of each is that of kernels/manifest.inc.  What the manifest does not say does not compile: a name that the
// operator lacks, one of another type, one that stands elsewhere for another of the operators, and a bare number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "core/program.h"

namespace alcove::ops {

using OpCodes = std::initializer_list<OpCode>;
using Name = std::string_view;

void manifest_lacks_attribute();  // not defined: a call of it ends the evaluation at compile time

consteval Name attributes_of(OpCode op) {
  switch (op) {
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) \
  case OpCode::name: return attributes;
#include "kernels/manifest.inc"
  }
  return {};
}

// The position of `prefix` and `name`, put together, among the attributes of each of `ops`.
consteval uint8_t find_attribute(OpCodes ops, Name prefix, Name name, Name type) {
  int found = -1;
  for (const OpCode op : ops) {
    Name left = attributes_of(op);
    for (int position = 0;; ++position) {
      if (left.empty()) manifest_lacks_attribute();
      const size_t colon = left.find(':'), end = left.find(' ');
      const Name each = left.substr(0, colon);
      if (each.starts_with(prefix) && each.substr(prefix.size()) == name) {
        if (left.substr(colon + 1, 3) != type || (found >= 0 && found != position)) manifest_lacks_attribute();
        found = position;
        break;
      }
      left = end == Name::npos ? Name() : left.substr(end + 1);
    }
  }
  return static_cast<uint8_t>(found);
}

// An attribute of one operator, or of several that have it at the same position.
template <typename T>
class Attribute {
 public:
  static constexpr Name kType = std::is_same_v<T, double> ? "f64" : std::is_same_v<T, int64_t> ? "i64" : "u64";

  consteval Attribute(OpCode op, Name name) : Attribute({op}, {}, name) {}
  consteval Attribute(OpCodes ops, Name name) : Attribute(ops, {}, name) {}
  consteval Attribute(OpCodes ops, Name prefix, Name name) : position_(find_attribute(ops, prefix, name, kType)) {}

  [[nodiscard]] constexpr T read(const Op& op) const noexcept { return std::bit_cast<T>(op.attributes[position_]); }

 private:
  friend class Integers;
  constexpr explicit Attribute(uint8_t position) : position_(position) {}

  uint8_t position_;
};

using Integer = Attribute<int64_t>;
using Real = Attribute<double>;
using Bits = Attribute<uint64_t>;

// Integers that stand next to each other, one for each dimension or axis.
class Integers {
 public:
  // `prefix` followed by each of `names`.
  consteval Integers(OpCodes ops, Name prefix, std::initializer_list<Name> names)
      : first_(find_attribute(ops, prefix, *names.begin(), Integer::kType)) {
    uint8_t position = first_;
    for (const Name name : names) {
      if (find_attribute(ops, prefix, name, Integer::kType) != position++) manifest_lacks_attribute();
    }
  }
  // Rows before columns.
  consteval Integers(OpCodes ops, Name prefix) : Integers(ops, prefix, {"_h", "_w"}) {}
  // One for each dimension.
  static consteval Integers numbered(OpCodes ops, Name prefix) {
    static_assert(kMaxRank == 8);
    return {ops, prefix, {"0", "1", "2", "3", "4", "5", "6", "7"}};
  }

  [[nodiscard]] constexpr Integer operator[](size_t i) const noexcept {
    return Integer(static_cast<uint8_t>(first_ + i));
  }

 private:
  uint8_t first_;
};

// The function that an operator ends with, and the bounds of a clamp.
struct ActivationAttributes {
  // Each of the three after `prefix`.
  consteval ActivationAttributes(OpCode op, Name prefix = {})
      : function({op}, prefix, "activation"), low({op}, prefix, "low"), high({op}, prefix, "high") {}

  Integer function;
  Real low, high;
};

}  // namespace alcove::ops
