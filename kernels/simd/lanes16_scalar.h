// Sixteen outputs at a time, without instructions of any set: what kernels that run over panels of 16 are written in.
// `lanes16_avx2.h` and `lanes16_avx512.h` are the same type in vectors; a file includes one of the three.  Everything has
// internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/half.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

struct Lanes16 {
  struct Floats {
    float v[16];
  };
  struct Words {
    int32_t v[16];
  };

  static Floats fill(float value) noexcept {
    Floats r;
    for (float& x : r.v) x = value;
    return r;
  }
  static Floats load(const void* p) noexcept {
    Floats r;
    std::memcpy(r.v, p, 64);
    return r;
  }
  static Words load_words(const void* p) noexcept {
    Words r;
    std::memcpy(r.v, p, 64);
    return r;
  }
  // Lane kLane of each kWidth lanes, in all of them.
  template <size_t kWidth, size_t kLane>
  static Floats spread(const Floats& x) noexcept {
    Floats r;
    for (size_t c = 0; c < 16; ++c) r.v[c] = x.v[c / kWidth * kWidth + kLane];
    return r;
  }
  // Each of sixteen int8, widened.
  static Words widen(const int8_t* p) noexcept {
    Words r;
    for (int c = 0; c < 16; ++c) r.v[c] = p[c];
    return r;
  }
  static uint16_t half(const void* p, size_t at) noexcept {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const uint8_t*>(p) + 2 * at, sizeof bits);
    return bits;
  }
  // Each of sixteen floats of 16 bits, as float32.
  static Floats widen_f16(const void* p) noexcept {
    Floats r;
    for (size_t c = 0; c < 16; ++c) r.v[c] = kernels::widen_f16(half(p, c));
    return r;
  }
  static Floats widen_bf16(const void* p) noexcept {
    Floats r;
    for (size_t c = 0; c < 16; ++c) r.v[c] = kernels::widen_bf16(half(p, c));
    return r;
  }
  static Words zero() noexcept { return {}; }
  // Two int16 in each: the lower halves of both.
  static Words pair(const Words& low, const Words& high) noexcept {
    Words r;
    for (int c = 0; c < 16; ++c) {
      r.v[c] =
          static_cast<int32_t>((static_cast<uint32_t>(low.v[c]) & 0xFFFFu) | static_cast<uint32_t>(high.v[c]) << 16);
    }
    return r;
  }
  // sum + the products of both halves, for halves that fit int8; wraps.
  static Words multiply_add_pairs(const Words& x, const Words& w, const Words& sum) noexcept {
    Words r;
    for (int c = 0; c < 16; ++c) {
      const int32_t low = static_cast<int16_t>(x.v[c]) * static_cast<int16_t>(w.v[c]);
      const int32_t high = (x.v[c] >> 16) * (w.v[c] >> 16);
      r.v[c] = static_cast<int32_t>(static_cast<uint32_t>(sum.v[c]) + static_cast<uint32_t>(low + high));
    }
    return r;
  }
  static Words fill_words(int32_t value) noexcept {
    Words r;
    for (int32_t& x : r.v) x = value;
    return r;
  }
  static Floats fma(const Floats& x, const Floats& w, const Floats& sum) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) r.v[c] = __builtin_fmaf(x.v[c], w.v[c], sum.v[c]);
    return r;
  }
  // Byte kByte of each word, as a signed number.
  template <int kByte>
  static Floats byte(const Words& words) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) {
      r.v[c] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(words.v[c]) << (24 - 8 * kByte)) >> 24);
    }
    return r;
  }
  // Bits 4 * kNibble to 4 * kNibble + 3 of each word, less 8.
  template <int kNibble>
  static Floats nibble(const Words& words) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) {
      r.v[c] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(words.v[c]) >> (4 * kNibble) & 15u) - 8);
    }
    return r;
  }
  static Floats to_floats(const Words& words) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) r.v[c] = static_cast<float>(words.v[c]);
    return r;
  }
  static Words multiply(const Words& a, const Words& b) noexcept {
    Words r;
    for (int c = 0; c < 16; ++c)
      r.v[c] = static_cast<int32_t>(static_cast<uint32_t>(a.v[c]) * static_cast<uint32_t>(b.v[c]));
    return r;
  }
  static Words add(const Words& a, const Words& b) noexcept {
    Words r;
    for (int c = 0; c < 16; ++c)
      r.v[c] = static_cast<int32_t>(static_cast<uint32_t>(a.v[c]) + static_cast<uint32_t>(b.v[c]));
    return r;
  }
  static Floats multiply(const Floats& a, const Floats& b) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) r.v[c] = a.v[c] * b.v[c];
    return r;
  }
  static Floats add(const Floats& a, const Floats& b) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) r.v[c] = a.v[c] + b.v[c];
    return r;
  }
  static Floats subtract(const Floats& a, const Floats& b) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) r.v[c] = a.v[c] - b.v[c];
    return r;
  }
  // Lane l takes lane l + 8, + 4, + 2, + 1.
  static float sum(const Floats& v) noexcept {
    Floats r = v;
    for (int width = 8; width > 0; width /= 2) {
      for (int c = 0; c < width; ++c) r.v[c] += r.v[c + width];
    }
    return r.v[0];
  }
  // A NaN stays one.
  static Floats clamp(const Floats& v, const Floats& low, const Floats& high) noexcept {
    Floats r;
    for (int c = 0; c < 16; ++c) r.v[c] = clamp_value(v.v[c], low.v[c], high.v[c]);
    return r;
  }
  // The first `count` lanes, a NaN as the canonical one.
  static void store(float* p, size_t count, const Floats& v) noexcept {
    for (size_t c = 0; c < 16 && c < count; ++c) p[c] = canonical(v.v[c]);
  }
  // The first `count` lanes, by the rule of requantize.h.
  static void requantize_store(int8_t* p, size_t count, const Floats& v, const Int8Range& range) noexcept {
    for (size_t c = 0; c < 16 && c < count; ++c) p[c] = requantize(v.v[c], range);
  }
  // The first `count` floats, +0 behind them.
  static Floats load_some(const float* p, size_t count) noexcept {
    Floats r = {};
    for (size_t c = 0; c < 16 && c < count; ++c) r.v[c] = p[c];
    return r;
  }
  // The first `count` of sixteen int8, 0 behind them.
  static Words widen_some(const int8_t* p, size_t count) noexcept {
    Words r = {};
    for (size_t c = 0; c < 16 && c < count; ++c) r.v[c] = p[c];
    return r;
  }
};

}  // namespace

}  // namespace alcove::kernels
