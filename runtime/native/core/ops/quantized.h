// What the rules of the quantized operators share.
#pragma once

#include "core/ops/ops.h"

namespace alcove::ops {

inline constexpr uint32_t kInt8 = make_set({DType::i8});

// Attribute i is a float32, exactly, between 2^-100 and 2^100: then it and its inverse are far from both ends of float32.
[[nodiscard]] Status check_scale(const Subject& s, uint8_t i, const char* role);
// Attribute i is an int8.
[[nodiscard]] Status check_int8(const Subject& s, uint8_t i, const char* role);
// Attributes first, first + 1 and first + 2 are the zero point of the output and the least and greatest int8 that it may hold.
[[nodiscard]] Status check_int8_output(const Subject& s, uint8_t first);
// Output 0 has the rank and dimensions of input 0, whatever its type.
[[nodiscard]] Status check_same_shape(const Subject& s);
// A sum of k products of int8 stays within int32.
[[nodiscard]] Status check_gemm_i8(const Subject& s, const Checked& k);

}  // namespace alcove::ops
