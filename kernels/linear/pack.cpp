// Panels from a matrix that was computed: movement only, so one compilation does for all instruction sets.
#include <cstring>

#include "kernels/linear/linear.h"

namespace alcove::kernels {

namespace {

constexpr size_t kLines = 16;  // of a panel written at a time: they and the rows they come from stay in the first cache

void pack_one(const float* weight, size_t n_stride, size_t k_stride, size_t columns, size_t k, float* panel) noexcept {
  if (columns < 16) std::memset(panel, 0, (k + 1) * 16 * sizeof(float));
  std::memset(panel, 0, 16 * sizeof(float));
  float* lines = panel + 16;
  if (n_stride == 1) {
    for (size_t i = 0; i < k; ++i) std::memcpy(lines + i * 16, weight + i * k_stride, columns * sizeof(float));
    return;
  }
  for (size_t first = 0; first < k; first += kLines) {
    const size_t last = first + kLines < k ? first + kLines : k;
    for (size_t column = 0; column < columns; ++column) {
      const float* from = weight + column * n_stride;
      for (size_t i = first; i < last; ++i) lines[i * 16 + column] = from[i * k_stride];
    }
  }
}

}  // namespace

void pack_panels_f32(const float* weight, size_t n_stride, size_t k_stride, size_t n, size_t k, float* panels) noexcept {
  for (size_t first = 0; first < n; first += 16) {
    const size_t columns = n - first < 16 ? n - first : 16;
    pack_one(weight + first * n_stride, n_stride, k_stride, columns, k, panels + first * (k + 1));
  }
}

}  // namespace alcove::kernels
