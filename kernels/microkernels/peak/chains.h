// The loops of peak.h for vectors V of an instruction set.  Everything here has internal linkage, so that no copy for a wide
// instruction set is chosen for all.
#pragma once

#include "kernels/microkernels/peak/peak.h"

namespace alcove::kernels {

namespace {

// Enough to fill two units whose results take five cycles, and few enough for 16 registers.
constexpr int kChains = 12;

// V: Acc and Operand, start() and operand(), multiply_add(acc, x, y), hide(value), which makes the compiler know nothing of a
// value, and kProducts of one multiply_add.
template <class V>
uint64_t chains(uint64_t rounds) noexcept {
  typename V::Acc acc[kChains];
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) {
    acc[c] = V::start();
    V::hide(acc[c]);
  }
  typename V::Operand x = V::operand(), y = V::operand();
  V::hide(y);
  for (uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      V::hide(x);  // the product is not that of the chain before
      acc[c] = V::multiply_add(acc[c], x, y);
    }
  }
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) V::hide(acc[c]);
  return rounds * kChains * V::kProducts;
}

// V: Block of bytes, load(p), both(a, b), hide(value).
template <class V>
void read_all(const uint8_t* data, size_t size) noexcept {
  constexpr int kBlocks = 8;
  typename V::Block acc[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) acc[b] = V::load(data);
  for (size_t at = 0; at < size; at += kBlocks * sizeof(typename V::Block)) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) acc[b] = V::both(acc[b], V::load(data + at + b * sizeof(typename V::Block)));
  }
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) V::hide(acc[b]);
}

}  // namespace

}  // namespace alcove::kernels
