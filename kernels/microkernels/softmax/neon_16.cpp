// NEON softmax: the 16 lanes of the tree are four registers; the last elements pass through a padded block of -inf, whose
// exponential is +0 and so changes no sum.
#include <arm_neon.h>

#include "kernels/canonical.h"
#include "kernels/long_sum.h"
#include "kernels/math/exp.h"
#include "kernels/math/f64.h"
#include "kernels/microkernels/softmax/softmax.h"
#include "kernels/simd/vector_neon.h"

namespace alcove::kernels {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

inline float32x4_t exp_nonpositive(float32x4_t x) noexcept {
  const float32x4_t magic = vdupq_n_f32(kRoundMagic);
  const float32x4_t t = vfmaq_f32(magic, x, vdupq_n_f32(kLog2E));
  const float32x4_t n = vsubq_f32(t, magic);
  const float32x4_t r = vfmaq_f32(vfmaq_f32(x, n, vdupq_n_f32(-kLn2High)), n, vdupq_n_f32(-kLn2Low));
  float32x4_t p = vdupq_n_f32(kExpC0);
  p = vfmaq_f32(vdupq_n_f32(kExpC1), p, r);
  p = vfmaq_f32(vdupq_n_f32(kExpC2), p, r);
  p = vfmaq_f32(vdupq_n_f32(kExpC3), p, r);
  p = vfmaq_f32(vdupq_n_f32(kExpC4), p, r);
  p = vfmaq_f32(vdupq_n_f32(kExpC5), p, r);
  const float32x4_t y = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
  const uint32x4_t exponent = vsubq_u32(vreinterpretq_u32_f32(t), vreinterpretq_u32_f32(magic));
  const uint32x4_t power = vshlq_n_u32(vaddq_u32(exponent, vdupq_n_u32(127)), 23);
  const float32x4_t value = vmulq_f32(y, vreinterpretq_f32_u32(power));
  const float32x4_t in_range = vbslq_f32(vcgeq_f32(x, vdupq_n_f32(kExpLowest)), value, vdupq_n_f32(0.0f));
  return vbslq_f32(vceqq_f32(x, x), in_range, x);
}

// Lane j + lane j + 8, then + 4, + 2, + 1.
inline float tree(const float32x4_t (&lanes)[4]) noexcept {
  const float32x4_t four = vaddq_f32(vaddq_f32(lanes[0], lanes[2]), vaddq_f32(lanes[1], lanes[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// The exponentials of 16 elements, added to the lanes and, if `output` is given, stored.
inline void add_block(const float* input, float32x4_t factor, float32x4_t shift, float* output,
                      float32x4_t (&lanes)[4]) noexcept {
  for (int v = 0; v < 4; ++v) {
    const float32x4_t e = exp_nonpositive(vsubq_f32(vmulq_f32(vld1q_f32(input + 4 * v), factor), shift));
    if (output != nullptr) vst1q_f32(output + 4 * v, e);
    lanes[v] = vaddq_f32(lanes[v], e);
  }
}

template <bool kIsLog>
void softmax_row(const float* input, float* output, size_t count, float scale, float* sum_to) noexcept {
  const float32x4_t factor = vdupq_n_f32(scale);
  float32x4_t best = vdupq_n_f32(kMinusInfinity);
  uint32x4_t ordered = vdupq_n_u32(~0u);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float32x4_t x = vmulq_f32(vld1q_f32(input + i), factor);
    best = vmaxq_f32(best, x);
    ordered = vandq_u32(ordered, vceqq_f32(x, x));
  }
  float greatest = vmaxvq_f32(best);
  bool has_nan = vminvq_u32(ordered) == 0;
  for (; i < count; ++i) {
    const float x = input[i] * scale;
    greatest = x > greatest ? x : greatest;
    has_nan = has_nan || x != x;
  }
  if (has_nan) {
    for (i = 0; i < count; ++i) output[i] = canonical(__builtin_nanf(""));
    if (sum_to != nullptr) *sum_to = canonical(__builtin_nanf(""));
    return;
  }

  const float32x4_t shift = vdupq_n_f32(greatest);
  float32x4_t lanes[4];
  for (float32x4_t& lane : lanes) lane = vdupq_n_f32(0.0f);
  LongSums<16> sums;
  const bool is_long = count > kSoftmaxBlock;
  if (is_long) sums.clear();
  const auto end_block = [&] {
    float all[16];
    for (int v = 0; v < 4; ++v) {
      vst1q_f32(all + 4 * v, lanes[v]);
      lanes[v] = vdupq_n_f32(0.0f);
    }
    sums.add(all);
  };
  for (i = 0; i + 16 <= count;) {
    const size_t end = count - i < kSoftmaxBlock ? count : i + kSoftmaxBlock;
    for (; i + 16 <= end; i += 16) add_block(input + i, factor, shift, kIsLog ? nullptr : output + i, lanes);
    if (end < count) end_block();
  }
  if (i < count) {
    float block[16], results[16];
    for (size_t lane = 0; lane < 16; ++lane) block[lane] = i + lane < count ? input[i + lane] * scale : kMinusInfinity;
    add_block(block, vdupq_n_f32(1.0f), shift, results, lanes);
    for (size_t lane = 0; !kIsLog && i + lane < count; ++lane) output[i + lane] = results[lane];
  }

  if (is_long) {
    end_block();
    const float* total = sums.total();
    for (int v = 0; v < 4; ++v) lanes[v] = vld1q_f32(total + 4 * v);
  }
  const float sum = tree(lanes);
  if (sum_to != nullptr) {
    *sum_to = sum;
    return;
  }
  const float32x4_t divisor = vdupq_n_f32(sum);
  const float32x4_t logarithm = vdupq_n_f32(kIsLog ? static_cast<float>(log_f64(sum)) : 0.0f);
  for (i = 0; i < count; i += 4) {
    const size_t left = count - i < 4 ? count - i : 4;
    const float32x4_t y = kIsLog
                              ? vsubq_f32(vsubq_f32(vmulq_f32(Neon::load(input + i, left), factor), shift), logarithm)
                              : vdivq_f32(Neon::load(output + i, left), divisor);
    Neon::store(output + i, left, y);
  }
}

}  // namespace

void softmax_f32_neon_16(const SoftmaxF32& a) noexcept {
  auto* const softmax = a.is_log ? softmax_row<true> : softmax_row<false>;
  for (size_t row = 0; row < a.rows; ++row) {
    softmax(a.input + row * a.count, a.output + row * a.count, a.count, a.scale,
            a.sums != nullptr ? a.sums + row : nullptr);
  }
}

}  // namespace alcove::kernels
