// The sum of one column of a bag.  Internal linkage: several instruction sets include this.
#pragma once

#include "kernels/microkernels/text_embedding_bag/text_embedding_bag.h"
#include "kernels/long_sum.h"

namespace alcove::kernels {

namespace {

[[maybe_unused]] float column_sum(const TextEmbeddingBagF32& a, size_t d) noexcept {
  const size_t block = sum_block(a.count);
  LongSums<1> sums;
  sums.clear();
  size_t i = 0;
  do {
    const size_t end = a.count - i < block ? a.count : i + block;
    float sum = 0.0f;
    for (; i < end; ++i) sum += a.table[static_cast<size_t>(a.ids[i]) * a.dim + d];
    sums.add(&sum);
  } while (i < a.count);
  return *sums.total();
}

}  // namespace

}  // namespace alcove::kernels
