// lanes16.h in four vectors of 128 bits.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

struct Lanes16 {
  // Lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15: members, because arrays would stay in memory.
  template <typename Vector>
  struct Four {
    Vector a, b, c, d;
  };
  using Floats = Four<float32x4_t>;
  using Words = Four<int32x4_t>;

  // function(a part of each argument), for the four parts.
  template <typename Function, typename Vector, typename... Others>
  [[gnu::always_inline]] static inline auto each(Function function, const Four<Vector>& x,
                                                 const Others&... others) noexcept
      -> Four<decltype(function(x.a, others.a...))> {
    return {function(x.a, others.a...), function(x.b, others.b...), function(x.c, others.c...),
            function(x.d, others.d...)};
  }

  static Floats fill(float value) noexcept {
    const float32x4_t v = vdupq_n_f32(value);
    return {v, v, v, v};
  }
  static Floats load(const void* p) noexcept {
    const auto* floats = static_cast<const float*>(p);
    return {vld1q_f32(floats), vld1q_f32(floats + 4), vld1q_f32(floats + 8), vld1q_f32(floats + 12)};
  }
  template <size_t kWidth, size_t kLane>
  static Floats spread(const Floats& x) noexcept {
    if constexpr (kWidth == 4) {
      return each([](float32x4_t v) noexcept { return vdupq_laneq_f32(v, kLane); }, x);
    }
    constexpr int kOfFour = kLane % 4;
    const float32x4_t low = vdupq_laneq_f32(kLane < 4 ? x.a : x.b, kOfFour);
    const float32x4_t high = vdupq_laneq_f32(kLane < 4 ? x.c : x.d, kOfFour);
    return {low, low, high, high};
  }
  static Words load_words(const void* p) noexcept {
    const auto* words = static_cast<const int32_t*>(p);
    return {vld1q_s32(words), vld1q_s32(words + 4), vld1q_s32(words + 8), vld1q_s32(words + 12)};
  }
  static Words widen(const int8_t* p) noexcept {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
  }
  static Floats widen_f16(const void* p) noexcept {
    const uint16x8_t low = load_halves(p, 0), high = load_halves(p, 8);
    return {f16(vget_low_u16(low)), f16(vget_high_u16(low)), f16(vget_low_u16(high)), f16(vget_high_u16(high))};
  }
  static Floats widen_bf16(const void* p) noexcept {
    const uint16x8_t low = load_halves(p, 0), high = load_halves(p, 8);
    return {bf16(vget_low_u16(low)), bf16(vget_high_u16(low)), bf16(vget_low_u16(high)), bf16(vget_high_u16(high))};
  }
  static Words fill_words(int32_t value) noexcept {
    const int32x4_t v = vdupq_n_s32(value);
    return {v, v, v, v};
  }
  static Words zero() noexcept { return fill_words(0); }
  // The lower halves of `low`, the lower halves of `high` shifted in above them.
  static Words pair(const Words& low, const Words& high) noexcept {
    return each([](int32x4_t l, int32x4_t h) noexcept { return vsliq_n_s32(l, h, 16); }, low, high);
  }
  static Words multiply_add_pairs(const Words& x, const Words& w, const Words& sum) noexcept {
    return each(
        [](int32x4_t f, int32x4_t g, int32x4_t s) noexcept {
          const int16x8_t p = vreinterpretq_s16_s32(f), q = vreinterpretq_s16_s32(g);
          return vaddq_s32(s, vpaddq_s32(vmull_s16(vget_low_s16(p), vget_low_s16(q)), vmull_high_s16(p, q)));
        },
        x, w, sum);
  }
  static Floats fma(const Floats& x, const Floats& w, const Floats& sum) noexcept {
    return each([](float32x4_t f, float32x4_t g, float32x4_t s) noexcept { return vfmaq_f32(s, f, g); }, x, w, sum);
  }
  template <int kByte>
  static Floats byte(const Words& words) noexcept {
    return each([](int32x4_t v) noexcept { return vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(v, 24 - 8 * kByte), 24)); },
                words);
  }
  template <int kNibble>
  static Floats nibble(const Words& words) noexcept {
    return each(
        [](int32x4_t v) noexcept {
          const int32x4_t top = vshlq_n_s32(v, 28 - 4 * kNibble);
          const int32x4_t four = vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(top), 28));
          return vcvtq_f32_s32(vsubq_s32(four, vdupq_n_s32(8)));
        },
        words);
  }
  static Floats to_floats(const Words& words) noexcept {
    return each([](int32x4_t v) noexcept { return vcvtq_f32_s32(v); }, words);
  }
  static Words add(const Words& x, const Words& y) noexcept {
    return each([](int32x4_t f, int32x4_t g) noexcept { return vaddq_s32(f, g); }, x, y);
  }
  static Words multiply(const Words& x, const Words& y) noexcept {
    return each([](int32x4_t f, int32x4_t g) noexcept { return vmulq_s32(f, g); }, x, y);
  }
  static Floats multiply(const Floats& x, const Floats& y) noexcept {
    return each([](float32x4_t f, float32x4_t g) noexcept { return vmulq_f32(f, g); }, x, y);
  }
  static Floats add(const Floats& x, const Floats& y) noexcept {
    return each([](float32x4_t f, float32x4_t g) noexcept { return vaddq_f32(f, g); }, x, y);
  }
  static Floats subtract(const Floats& x, const Floats& y) noexcept {
    return each([](float32x4_t f, float32x4_t g) noexcept { return vsubq_f32(f, g); }, x, y);
  }
  static float sum(const Floats& v) noexcept {
    const float32x4_t four = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  // By comparisons, because a minimum of +0 and -0 here is not that of other processors.
  static Floats clamp(const Floats& v, const Floats& low, const Floats& high) noexcept {
    return each(
        [](float32x4_t f, float32x4_t l, float32x4_t h) noexcept {
          f = vbslq_f32(vcltq_f32(f, l), l, f);
          return vbslq_f32(vcgtq_f32(f, h), h, f);
        },
        v, low, high);
  }
  static void store(float* p, size_t count, const Floats& v) noexcept {
    const Floats y = each(
        [](float32x4_t f) noexcept {
          return vbslq_f32(vceqq_f32(f, f), f, vreinterpretq_f32_u32(vdupq_n_u32(kCanonicalNanBits)));
        },
        v);
    if (count >= 16) return put(p, y);
    float lanes[16];
    put(lanes, y);
    for (size_t c = 0; c < count; ++c) p[c] = lanes[c];
  }
  static void requantize_store(int8_t* p, size_t count, const Floats& v, const Int8Range& range) noexcept {
    // Bounds are whole numbers, so it is the same to clamp before and after rounding: what is too high is cut off by saturation
    // and `high`, what is too low, and a NaN, becomes `low` first.
    const float32x4_t low = vdupq_n_f32(range.low);
    const int16x8_t zero_point = vdupq_n_s16(static_cast<int16_t>(range.zero_point));
    const int8x16_t high = vdupq_n_s8(static_cast<int8_t>(static_cast<int32_t>(range.high) + range.zero_point));
    const Words words = each([=](float32x4_t f) noexcept { return vcvtnq_s32_f32(vmaxnmq_f32(f, low)); }, v);
    const int16x8_t first = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(words.a), words.b), zero_point);
    const int16x8_t second = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(words.c), words.d), zero_point);
    const int8x16_t bytes = vminq_s8(vqmovn_high_s16(vqmovn_s16(first), second), high);
    store_bytes(p, count, bytes);
  }
  static Floats load_some(const float* p, size_t count) noexcept {
    if (count >= 16) return load(p);
    float lanes[16] = {};
    for (size_t c = 0; c < count; ++c) lanes[c] = p[c];
    return load(lanes);
  }
  static Words widen_some(const int8_t* p, size_t count) noexcept {
    if (count >= 16) return widen(p);
    int8_t lanes[16];
    copy_some(p, count, lanes);
    return widen(lanes);
  }

 private:
  // The first `count` bytes, by eights, fours, twos and ones.
  static void store_bytes(int8_t* p, size_t count, int8x16_t bytes) noexcept {
    if (count >= 16) [[likely]] {
      return vst1q_s8(p, bytes);
    }
    if ((count & 8) != 0) {
      vst1_s8(p, vget_low_s8(bytes));
      p += 8;
      bytes = vextq_s8(bytes, bytes, 8);
    }
    if ((count & 4) != 0) {
      const int32_t four = vgetq_lane_s32(vreinterpretq_s32_s8(bytes), 0);
      std::memcpy(p, &four, 4);
      p += 4;
      bytes = vextq_s8(bytes, bytes, 4);
    }
    if ((count & 2) != 0) {
      const int16_t two = vgetq_lane_s16(vreinterpretq_s16_s8(bytes), 0);
      std::memcpy(p, &two, 2);
      p += 2;
      bytes = vextq_s8(bytes, bytes, 2);
    }
    if ((count & 1) != 0) *p = vgetq_lane_s8(bytes, 0);
  }
  static uint16x8_t load_halves(const void* p, size_t at) noexcept {
    return vld1q_u16(static_cast<const uint16_t*>(p) + at);
  }
  static float32x4_t f16(uint16x4_t v) noexcept { return vcvt_f32_f16(vreinterpret_f16_u16(v)); }
  static float32x4_t bf16(uint16x4_t v) noexcept { return vreinterpretq_f32_u32(vshll_n_u16(v, 16)); }
  static void put(float* p, const Floats& v) noexcept {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
  }
  // Seldom needed, and kept out of the loops.
  [[gnu::noinline]] static void copy_some(const int8_t* p, size_t count, int8_t (&lanes)[16]) noexcept {
    for (size_t c = 0; c < 16; ++c) lanes[c] = c < count ? p[c] : int8_t{0};
  }
};

}  // namespace

}  // namespace alcove::kernels
