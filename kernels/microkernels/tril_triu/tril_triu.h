// torch.tril and torch.triu: of each [rows][columns] matrix the elements with column - row <= diagonal (lower) or
// >= diagonal (upper), zeros elsewhere.  Bits are kept.
//
// The caller has checked: sizes are at least 1, each matrix side below 2^62, |diagonal| below 2^62, element_bytes is 1,
// 2, 4 or 8; output is exactly the input or overlaps nothing.  No pointer needs alignment.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct TrilTriu {
  const uint8_t* input;
  uint8_t* output;
  size_t element_bytes;
  size_t matrices;
  size_t rows;
  size_t columns;
  int64_t diagonal;
  bool is_upper;
};

using TrilTriuKernel = void(const TrilTriu&) noexcept;

TrilTriuKernel tril_triu_scalar;

}  // namespace alcove::kernels
