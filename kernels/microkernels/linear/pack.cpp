// Panels from a matrix that was computed: movement only, so one compilation does for all instruction sets.
#include <cstring>

#include "kernels/copy_run.h"
#include "kernels/microkernels/linear/linear.h"
#include "kernels/transpose_quad.h"

namespace alcove::kernels {

namespace {

const uint8_t* bytes(const float* p) noexcept { return reinterpret_cast<const uint8_t*>(p); }
uint8_t* bytes(float* p) noexcept { return reinterpret_cast<uint8_t*>(p); }
ptrdiff_t byte_stride(size_t floats) noexcept { return static_cast<ptrdiff_t>(floats * sizeof(float)); }

constexpr size_t kLines = 16;  // of a panel written at a time: they and the rows they come from stay in the first cache

void pack_one(const float* weight, size_t n_stride, size_t k_stride, size_t columns, size_t k, float* panel) noexcept {
  if (columns < 16) std::memset(panel, 0, (k + 1) * 16 * sizeof(float));
  std::memset(panel, 0, 16 * sizeof(float));
  float* lines = panel + 16;
  if (n_stride == 1) {
    for (size_t i = 0; i < k; ++i) copy_run(lines + i * 16, weight + i * k_stride, columns * sizeof(float));
    return;
  }
  size_t done = 0;
  if (k_stride == 1) {
    for (; done + 4 <= k; done += 4) {
      size_t column = 0;
      for (; column + 4 <= columns; column += 4) {
        transpose_quad(bytes(weight + column * n_stride + done), byte_stride(n_stride),
                       bytes(lines + done * 16 + column), 64);
      }
      for (; column < columns; ++column) {
        for (size_t i = done; i < done + 4; ++i) lines[i * 16 + column] = weight[column * n_stride + i];
      }
    }
  }
  for (size_t first = done; first < k; first += kLines) {
    const size_t last = first + kLines < k ? first + kLines : k;
    for (size_t column = 0; column < columns; ++column) {
      const float* from = weight + column * n_stride;
      for (size_t i = first; i < last; ++i) lines[i * 16 + column] = from[i * k_stride];
    }
  }
}

}  // namespace

void pack_panels_f32(const float* weight, size_t n_stride, size_t k_stride, size_t n, size_t k,
                     float* panels) noexcept {
  for (size_t first = 0; first < n; first += 16) {
    const size_t columns = n - first < 16 ? n - first : 16;
    pack_one(weight + first * n_stride, n_stride, k_stride, columns, k, panels + first * (k + 1));
  }
}

}  // namespace alcove::kernels
