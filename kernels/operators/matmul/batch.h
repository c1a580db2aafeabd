// Walks the indices of batch dimensions in order, with the offset of each of several operands.
#pragma once

#include <cstddef>

namespace alcove::kernels {
namespace {

template <size_t kOperands, size_t kRank>
struct BatchWalk {
  size_t index[kRank] = {};
  size_t offsets[kOperands] = {};

  // To the next index; false after the last.  strides[operand][dimension].
  bool next(size_t rank, const size_t* sizes, const size_t* const (&strides)[kOperands]) noexcept {
    for (size_t d = rank; d-- > 0;) {
      for (size_t o = 0; o < kOperands; ++o) offsets[o] += strides[o][d];
      if (++index[d] < sizes[d]) return true;
      for (size_t o = 0; o < kOperands; ++o) offsets[o] -= strides[o][d] * sizes[d];
      index[d] = 0;
    }
    return false;
  }
};

}  // namespace
}  // namespace alcove::kernels
