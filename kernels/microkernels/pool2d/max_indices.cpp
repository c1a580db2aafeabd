// Indices of the greatest elements of pooling windows.
#include "kernels/microkernels/pool2d/windows.h"

namespace alcove::kernels {

void max_pool2d_indices_f32_scalar(const MaxPool2dIndicesF32& a) noexcept {
  const PoolWindows& w = a.windows;
  int64_t* output = a.output;
  for (size_t batch = 0; batch < w.batch; ++batch) {
    const float* image = a.input + batch * w.in_h * w.in_w * w.channels;
    for (size_t out = 0; out < w.out_h * w.out_w; ++out, output += w.channels) {
      const Taps rows = find_rows(w, out / w.out_w);
      const Taps columns = find_columns(w, out % w.out_w);
      for (size_t c = 0; c < w.channels; ++c) {
        float y = -__builtin_inff();
        size_t index = rows.first * w.in_w + columns.first;
        for (size_t row = rows.first; row < rows.end; row += rows.step) {
          for (size_t column = columns.first; column < columns.end; column += columns.step) {
            const size_t at = row * w.in_w + column;
            const float x = image[at * w.channels + c];
            if (x > y || x != x) {
              y = x;
              index = at;
            }
          }
        }
        output[c] = static_cast<int64_t>(index);
      }
    }
  }
}

}  // namespace alcove::kernels
