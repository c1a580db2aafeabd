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
[[nodiscard]] Status check_batched_output(const Subject& s, const Batch& batch, uint64_t rows, uint64_t columns,
                                          uint32_t dtypes = kFloat);
// The same index does not fit all operands.
[[nodiscard]] Status batch_failure(const Subject& s);
// Tensor `index` is constant panels of [n, k]; 0 for either: any.
[[nodiscard]] Status check_panels(const Subject& s, uint32_t index, const char* role, uint64_t n, uint64_t k);

struct GemmSizes {
  uint64_t rows, n, k;
};

// Some of a product's outputs: whole panels of 16, but for the last.
struct Block {
  size_t row, rows, column, columns;
};

using BlockRun = void(const void* context, const Block& block, size_t part) noexcept;

// See below; a call of run for each block.
void split_gemm(const Call& c, const GemmSizes& sizes, bool has_stride, uint64_t gain, BlockRun* run,
                const void* context) noexcept;

// Calls run(block, part) for blocks that together make the product: rows, or panels where rows are few, which takes an output with
// a stride, or one row.  `gain`: multiply-adds in the time of one of f32.
template <typename Run>
void split_gemm(const Call& c, const GemmSizes& sizes, bool has_stride, uint64_t gain, const Run& run) noexcept {
  if (c.pool == nullptr) return run(Block{0, sizes.rows, 0, sizes.n}, 0);
  split_gemm(
      c, sizes, has_stride, gain,
      [](const void* context, const Block& block, size_t part) noexcept {
        (*static_cast<const Run*>(context))(block, part);
      },
      &run);
}

// `linear`, shared out; the strides of input and output are 0 or those of dense rows.
void split_linear(const Call& c, const kernels::LinearF32& args) noexcept;

}  // namespace alcove::ops
