// What the rules of the quantized operators share.
#pragma once

#include "core/ops/ops.h"

namespace alcove::ops {

inline constexpr uint32_t kInt8 = make_set({DType::i8});

// The zero point of the output, and the least and greatest int8 that it may hold.
struct Int8Output {
  consteval Int8Output(OpCode op) : zero_point(op, "zero_point"), low(op, "low"), high(op, "high") {}

  template <typename Args>
  void read(const Call& c, Args& args) const noexcept {
    args.zero_point = static_cast<int32_t>(c.integer(zero_point));
    args.low = static_cast<int32_t>(c.integer(low));
    args.high = static_cast<int32_t>(c.integer(high));
  }

  Integer zero_point, low, high;
};

// The attribute is a float32, exactly, between 2^-100 and 2^100: then it and its inverse are far from both ends of float32.
[[nodiscard]] Status check_scale(const Subject& s, Real attribute, const char* role);
// The attribute is an int8.
[[nodiscard]] Status check_int8(const Subject& s, Integer attribute, const char* role);
[[nodiscard]] Status check_int8_output(const Subject& s, Int8Output attributes);
// Output 0 has the rank and dimensions of input 0, whatever its type.
[[nodiscard]] Status check_same_shape(const Subject& s);
// A sum of k products of int8 stays within int32.
[[nodiscard]] Status check_gemm_i8(const Subject& s, const Checked& k);

}  // namespace alcove::ops
