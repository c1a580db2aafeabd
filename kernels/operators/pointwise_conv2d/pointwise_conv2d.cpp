// Moves pixels into panels, and leaves the arithmetic to linear.
#include "kernels/operators/pointwise_conv2d/pointwise_conv2d.h"

#include <algorithm>
#include <cstring>

#include "kernels/copy_run.h"

namespace alcove::kernels {

namespace {

constexpr size_t kLine = 16;  // pixels of a panel

// Line 0, which linear takes for a bias, is zero; line 1 is one, for the bias before each row of weights.
void begin_panels(float* panels, size_t count, size_t panel) noexcept {
  for (size_t p = 0; p < count; ++p, panels += panel) {
    std::memset(panels, 0, kLine * sizeof *panels);
    std::fill_n(panels + kLine, kLine, 1.0f);
  }
}

// One channel of `pixels` pixels, to its line of each panel: read as it lies, so that the processor sees it coming.
void pack_channel(const float* pixels, size_t count, float* line, size_t panel) noexcept {
  for (; count >= kLine; count -= kLine, pixels += kLine, line += panel) {
    std::memcpy(line, pixels, kLine * sizeof *line);
  }
  if (count == 0) return;
  std::memset(line, 0, kLine * sizeof *line);
  copy_run(line, pixels, count * sizeof *line);
}

}  // namespace

void pointwise_conv2d_f32_scalar(const PointwiseConv2dF32& a) noexcept {
  constexpr size_t kBlock = kPointwisePanels * kLine;
  const size_t panel = (a.channels + 2) * kLine;
  begin_panels(a.scratch, (std::min(a.pixels, kBlock) + kLine - 1) / kLine, panel);
  for (size_t first = 0; first < a.pixels; first += kBlock) {
    const size_t count = std::min(a.pixels - first, kBlock);
    for (size_t c = 0; c < a.channels; ++c) {
      pack_channel(a.input + c * a.stride + first, count, a.scratch + (c + 2) * kLine, panel);
    }
    LinearF32 product = {a.weight, a.scratch, a.output + first, a.out_c, count, a.channels + 1};
    product.output_stride = a.stride;
    product.activation = a.activation;
    a.linear(product);
  }
}

}  // namespace alcove::kernels
