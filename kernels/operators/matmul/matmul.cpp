// Packs, and leaves the arithmetic to linear: for each block of panels, all batches that share it.
#include "kernels/operators/matmul/batch.h"
#include "kernels/operators/matmul/matmul.h"

namespace alcove::kernels {

namespace {

constexpr size_t kBlockColumns = kMatmulPanels * 16;

void multiply_columns(const MatmulF32& a, size_t first) noexcept {
  const size_t columns = a.n - first < kBlockColumns ? a.n - first : kBlockColumns;
  const size_t n_stride = a.is_transposed ? a.k : 1;
  const size_t k_stride = a.is_transposed ? 1 : a.n;
  const float* packed = nullptr;
  float* output = a.output + first;
  BatchWalk<2, kMaxBatchRank> walk;
  do {
    const float* right = a.right + walk.offsets[1] + first * n_stride;
    if (right != packed) pack_panels_f32(right, n_stride, k_stride, columns, a.k, a.scratch);
    packed = right;
    LinearF32 product = {a.left + walk.offsets[0], a.scratch, output, a.m, columns, a.k};
    product.output_stride = a.n;
    a.linear(product);
    output += a.m * a.n;
  } while (walk.next(a.batch_rank, a.batch, {a.left_strides, a.right_strides}));
}

}  // namespace

void matmul_f32_scalar(const MatmulF32& a) noexcept {
  for (size_t first = 0; first < a.n; first += kBlockColumns) multiply_columns(a, first);
}

}  // namespace alcove::kernels
