// What the operators that ride on `linear` share: batch dimensions that are broadcast, the product's last step, scratch.
#pragma once

#include "core/ops/ops.h"

namespace alcove::ops {

// Batch dimensions: all of a result but the last two.
struct Batch {
  size_t rank = 0;
  size_t dims[kernels::kMaxBatchRank] = {};
};

// Takes the batch dimensions of `operand` in; false if they can't be broadcast together.  Precondition: rank 2 or more.
[[nodiscard]] bool broadcast_into(const Tensor& operand, Batch& batch) noexcept;
// Elements from one index of the batch to the next within `operand`, 0 where it is repeated.
void set_strides(const Tensor& operand, const Batch& batch, size_t* strides) noexcept;
[[nodiscard]] Status check_batched_output(const Subject& s, const Batch& batch, uint64_t rows, uint64_t columns);
// The same index does not fit all operands.
[[nodiscard]] Status batch_failure(const Subject& s);
// Tensor `index` is constant panels of [n, k]; 0 for either: any.
[[nodiscard]] Status check_panels(const Subject& s, uint32_t index, const char* role, uint64_t n, uint64_t k);

}  // namespace alcove::ops
