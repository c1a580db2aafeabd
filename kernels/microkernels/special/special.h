// output[i] = function(x[i]) or function(x[i], y[i]), the function one of functions.inc: computed in float64 with + - * /
// sqrt alone, by the formulas of scalar.cpp, and rounded once.
//
// One kernel serves all instruction sets: these functions are rare, have branches and loops, and float64 arithmetic has
// the same bits everywhere.
//
// Every NaN that leaves is 0x7FC00000.
//
// The caller has checked: x has count elements, and y too if the function has two operands; x and output are the same
// bytes or don't overlap.  No pointer needs more alignment than its element's.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class SpecialFunction : uint8_t {
#define ALCOVE_SPECIAL(number, name, operands) k_##name = number,
#include "kernels/microkernels/special/functions.inc"
};

struct SpecialF32 {
  SpecialFunction function;
  const float* x;
  const float* y;  // not read by functions of one operand
  float* output;
  size_t count;
};

using SpecialF32Kernel = void(const SpecialF32&) noexcept;

SpecialF32Kernel special_f32_scalar;

}  // namespace alcove::kernels
