// Softmax without an instruction set: the exponential and the tree, one lane after the other.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/long_sum.h"
#include "kernels/math/exp.h"
#include "kernels/math/f64.h"
#include "kernels/microkernels/softmax/softmax.h"

namespace alcove::kernels {

namespace {

float exp_nonpositive(float x) noexcept {
  if (!(x >= kExpLowest)) return x == x ? 0.0f : x;
  const float t = std::fma(x, kLog2E, kRoundMagic);
  const float n = t - kRoundMagic;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float p = kExpC0;
  p = std::fma(p, r, kExpC1);
  p = std::fma(p, r, kExpC2);
  p = std::fma(p, r, kExpC3);
  p = std::fma(p, r, kExpC4);
  p = std::fma(p, r, kExpC5);
  const float y = std::fma(p, r * r, r) + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(t) - std::bit_cast<uint32_t>(kRoundMagic);
  return y * std::bit_cast<float>((exponent + 127u) << 23);
}

void softmax_row(const float* input, float* output, size_t count, bool is_log, float scale, float* sum_to) noexcept {
  float greatest = input[0] * scale;
  bool has_nan = false;
  for (size_t i = 0; i < count; ++i) {
    const float x = input[i] * scale;
    if (x > greatest) greatest = x;
    if (x != x) has_nan = true;
  }
  if (has_nan) {
    for (size_t i = 0; i < count; ++i) output[i] = std::bit_cast<float>(kCanonicalNanBits);
    if (sum_to != nullptr) *sum_to = std::bit_cast<float>(kCanonicalNanBits);
    return;
  }
  float lanes[16] = {};
  LongSums<16> sums;
  sums.clear();
  for (size_t i = 0; i < count; ++i) {
    if (i > 0 && i % kSoftmaxBlock == 0) {
      sums.add(lanes);
      for (float& lane : lanes) lane = 0.0f;
    }
    const float e = exp_nonpositive(input[i] * scale - greatest);
    if (!is_log) output[i] = e;
    lanes[i % 16] += e;
  }
  sums.add(lanes);
  std::memcpy(lanes, sums.total(), sizeof lanes);
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  if (sum_to != nullptr) {
    *sum_to = lanes[0];
    return;
  }
  if (is_log) {
    const float log_sum = static_cast<float>(log_f64(lanes[0]));
    for (size_t i = 0; i < count; ++i) output[i] = canonical((input[i] * scale - greatest) - log_sum);
    return;
  }
  for (size_t i = 0; i < count; ++i) output[i] = canonical(output[i] / lanes[0]);
}

}  // namespace

void softmax_f32_scalar(const SoftmaxF32& a) noexcept {
  for (size_t row = 0; row < a.rows; ++row) {
    softmax_row(a.input + row * a.count, a.output + row * a.count, a.count, a.is_log, a.scale,
                a.sums != nullptr ? a.sums + row : nullptr);
  }
}

}  // namespace alcove::kernels
