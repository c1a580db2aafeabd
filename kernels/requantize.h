// The one rule by which every quantized operator rounds to int8, and how packed int8 weights lie in memory.
//
//   requantize(v) = rint(clamp(v, low - zero_point, high - zero_point)) + zero_point
//
// v is float32: an exact int32 sum, converted (nearest even) and multiplied by a float32 scale, or what an operator's own
// formula says.  clamp is `v = v > l ? v : l; v = v < h ? v : h`, so a NaN gives `low`; rint rounds half to even.  int32
// sums wrap around modulo 2^32: weights that were not made by the exporter can give wrong numbers, never undefined ones.
//
// Packed weights of k inputs and n outputs are ceil(n/16) panels of 16 outputs, each
//   int32[16]   of each output: its bias, or the sum of its weights; the operator says which
//   float32[16] of each output: its scale
//   int8[ceil(k/4)][16][4]  weight of output c for input 4 * i + j at [i][c][j]
// little-endian, zero for the outputs beyond n and the inputs beyond k.  k is at most 65,536: then no exact sum of products
// leaves int32, not even with the inputs shifted to [0, 255].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace alcove::kernels {

inline constexpr size_t kPanelOutputs = 16;
inline constexpr size_t kPanelHeadBytes = 128;  // the int32s and the scales
inline constexpr size_t kMaxProductsI8 = 65536;

[[nodiscard]] constexpr size_t panel_bytes_i8(size_t k) noexcept { return kPanelHeadBytes + (k + 3) / 4 * 64; }

// Everything below has internal linkage, so that no copy compiled for a wide instruction set is chosen for all.

// Bounds relative to the zero point, exact in float32.
struct Int8Range {
  float low, high;
  int32_t zero_point;
};

[[nodiscard, maybe_unused]] static inline Int8Range int8_range(int32_t low, int32_t high, int32_t zero_point) noexcept {
  return {static_cast<float>(low - zero_point), static_cast<float>(high - zero_point), zero_point};
}

[[nodiscard, maybe_unused]] static inline int8_t requantize(float value, Int8Range range) noexcept {
  // Adding 1.5 * 2^23 leaves no fraction bits, so the addition itself rounds half to even; |value| is at most 255.
  constexpr float kRound = 12582912.0f;
  value = value > range.low ? value : range.low;
  value = value < range.high ? value : range.high;
  return static_cast<int8_t>(static_cast<int32_t>((value + kRound) - kRound) + range.zero_point);
}

namespace {

// The inputs of kRows rows as groups of 4, so that one loop serves all: first the whole groups, where they lie (part 0), then
// the last inputs, copied and filled up with zeros (part 1).
template <int kRows>
struct GroupsOfFour {
  const int8_t* rows[kRows];
  size_t groups;
  int8_t rest[kRows][4];

  inline GroupsOfFour(int part, const int8_t* input, size_t stride, size_t k) noexcept
      : groups(part == 0 ? k / 4 : (k % 4 != 0 ? 1 : 0)) {
    for (int r = 0; r < kRows; ++r) {
      rows[r] = input + static_cast<size_t>(r) * stride;
      if (part == 0) continue;
      for (size_t j = 0; j < 4; ++j) rest[r][j] = j < k % 4 ? rows[r][k / 4 * 4 + j] : int8_t{0};
      rows[r] = rest[r];
    }
  }
  GroupsOfFour(const GroupsOfFour&) = delete;  // `rows` may point into it
  GroupsOfFour& operator=(const GroupsOfFour&) = delete;

  [[nodiscard]] inline int32_t at(int row, size_t group) const noexcept {
    int32_t four;
    std::memcpy(&four, rows[row] + group * 4, 4);
    return four;
  }
};

}  // namespace

}  // namespace alcove::kernels
