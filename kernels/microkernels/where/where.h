// output[i] = condition[..] != 0 ? a[..] : b[..], bits kept, operands repeated along dimensions of stride 0.
//
// The caller has checked: rank at most 8, sizes at least 1; every element that the strides reach is there; elements have 1,
// 4 or 8 bytes; the output is row-major and overlaps no operand.  No pointer needs more alignment than its element's.  Any
// number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/microkernels/binary/broadcast.h"

namespace alcove::kernels {

struct Where {
  size_t element_bytes;
  const uint8_t* condition;
  const void* a;
  const void* b;
  void* output;
  BroadcastShape shape;
  size_t condition_strides[kBroadcastRank], a_strides[kBroadcastRank], b_strides[kBroadcastRank];  // in elements
};

using WhereKernel = void(const Where&) noexcept;

WhereKernel where_scalar;

}  // namespace alcove::kernels
