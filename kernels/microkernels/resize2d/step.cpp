// The distance between samples of a resized image.
#include "kernels/microkernels/resize2d/resize2d.h"

namespace alcove::kernels {

float resize2d_step(size_t in, size_t out, bool align_corners, double scale) noexcept {
  if (align_corners) return out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  if (!(scale > 0.0)) return static_cast<float>(in) / static_cast<float>(out);
  return static_cast<float>(1.0 / scale);
}

}  // namespace alcove::kernels
