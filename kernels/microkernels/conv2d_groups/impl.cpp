// The loops of conv2d_groups, compiled once for each instruction set.
#include "kernels/microkernels/conv2d_groups/conv2d_groups.h"

#include "kernels/simd/lanes16.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

struct Vector : Lanes16 {
  using Register = Floats;
};

// Neighbouring pixels whose sums stay in registers.
#if defined(ALCOVE_ISA_avx512)
constexpr size_t kPixels = 8;
#elif defined(ALCOVE_ISA_scalar)
constexpr size_t kPixels = 1;
#else
constexpr size_t kPixels = 3;
#endif

alignas(64) constexpr float kZeros[kGroupLanes] = {};  // what is outside the image

using Lane = size_t;

// Adds a tap's products to the sums of pixels `step` floats apart: of each group channel kLane to all of its lanes.
template <size_t kWidth, size_t kCount, Lane... kLane>
[[gnu::always_inline]] inline void add_tap(const float* x, size_t step, const float* weights,
                                           Lanes16::Floats (&acc)[kCount]) noexcept {
  Lanes16::Floats pixels[kCount];
#pragma GCC unroll 8
  for (size_t p = 0; p < kCount; ++p) pixels[p] = Lanes16::load(x + p * step);
  const auto add = [&]<size_t kOne>() {
    const Lanes16::Floats w = Lanes16::load(weights + kOne * kGroupLanes);
#pragma GCC unroll 8
    for (size_t p = 0; p < kCount; ++p) acc[p] = Lanes16::fma(Lanes16::spread<kWidth, kOne>(pixels[p]), w, acc[p]);
  };
  (add.template operator()<kLane>(), ...);
}

template <size_t kWidth, size_t kCount>
[[gnu::always_inline]] inline void add_all(const float* x, size_t step, const float* weights,
                                           Lanes16::Floats (&acc)[kCount]) noexcept {
  if constexpr (kWidth == 4) {
    add_tap<kWidth, kCount, 0, 1, 2, 3>(x, step, weights, acc);
  } else {
    add_tap<kWidth, kCount, 0, 1, 2, 3, 4, 5, 6, 7>(x, step, weights, acc);
  }
}

// kCount pixels from `column` on, of 16 channels from `block` * 16 on.  With kIsInside no tap is left or right of the image.
template <size_t kWidth, size_t kCount, bool kIsInside>
[[gnu::noinline]] void tile(const Conv2dGroupsRow& a, size_t block, size_t column) noexcept {
  const size_t taps = a.kernel_h * a.kernel_w;
  const float* weights = a.weights + block * (taps * kWidth + 1) * kGroupLanes;
  Lanes16::Floats acc[kCount];
  acc[0] = Lanes16::load(weights);
#pragma GCC unroll 8
  for (size_t p = 1; p < kCount; ++p) acc[p] = acc[0];
  weights += kGroupLanes;
  const auto left = static_cast<int64_t>(column * a.stride_w) - static_cast<int64_t>(a.pad_left);
  for (size_t i = 0; i < a.kernel_h; ++i) {
    const int64_t row = a.top + static_cast<int64_t>(i * a.dilation_h);
    const bool is_row = row >= 0 && row < static_cast<int64_t>(a.in_h);
    const float* line = a.input + (is_row ? static_cast<size_t>(row) : 0) * a.in_w * a.channels + block * kGroupLanes;
    for (size_t j = 0; j < a.kernel_w; ++j, weights += kWidth * kGroupLanes) {
      const int64_t at = left + static_cast<int64_t>(j * a.dilation_w);
      const bool is_there = is_row && (kIsInside || (at >= 0 && at < static_cast<int64_t>(a.in_w)));
      const float* x = is_there ? line + static_cast<size_t>(at) * a.channels : kZeros;
      add_all<kWidth>(x, is_there ? a.stride_w * a.channels : 0, weights, acc);
    }
  }
#pragma GCC unroll 8
  for (size_t p = 0; p < kCount; ++p) {
    const size_t to = (column + p) * a.channels + block * kGroupLanes;
    Lanes16::Floats y = acc[p];
    if (a.residual != nullptr) y = Lanes16::add(y, Lanes16::load(a.residual + to));
    Lanes16::store(a.output + to, kGroupLanes, activate<Vector>(a.activation, y));
  }
}

template <size_t kWidth>
void convolve(const Conv2dGroupsRow& a) noexcept {
  // Columns [first, end) look at nothing left or right of the image.
  const size_t reach = (a.kernel_w - 1) * a.dilation_w + 1;
  const size_t first = (a.pad_left + a.stride_w - 1) / a.stride_w;
  size_t end = a.in_w + a.pad_left < reach ? 0 : (a.in_w + a.pad_left - reach) / a.stride_w + 1;
  end = end < a.out_w ? end : a.out_w;
  for (size_t block = 0; block < a.channels / kGroupLanes; ++block) {
    size_t column = 0;
    for (; column < first && column < a.out_w; ++column) tile<kWidth, 1, false>(a, block, column);
    if constexpr (kPixels > 1) {
      if (column + kPixels <= end) {
        for (; column + kPixels <= end; column += kPixels) tile<kWidth, kPixels, true>(a, block, column);
        if (column < end) tile<kWidth, kPixels, true>(a, block, end - kPixels);  // some of them again
        column = end;
      }
    }
    for (; column < a.out_w; ++column) tile<kWidth, 1, false>(a, block, column);
  }
}

}  // namespace

void ALCOVE_PER_ISA(conv2d_groups)(const Conv2dGroupsRow& a) noexcept {
  a.width == 4 ? convolve<4>(a) : convolve<8>(a);
}

}  // namespace alcove::kernels
