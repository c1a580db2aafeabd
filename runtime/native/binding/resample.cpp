#include "binding/resample.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace nb = nanobind;

namespace alcove::binding {

namespace {

constexpr size_t kChannels = 3;
constexpr size_t kLanes = 4;  // red, green, blue, and what lies behind them

// Which of `length` pixels in a row make each of `count`: `taps` from first[i] on, weighted by weights[i * taps ...].
struct Axis {
  Axis(const First& starts, const Weights& all, size_t length)
      : first(starts.data()), weights(all.data()), count(starts.shape(0)), taps(all.shape(1)) {
    if (all.shape(0) != count) throw nb::value_error("resample: as many rows of weights as first pixels");
    if (taps < 1 || taps > length) throw nb::value_error("resample: 1 to as many weights as there are pixels");
    for (size_t i = 0; i < count; ++i)
      if (first[i] > length - taps) throw nb::value_error("resample: weights reach beyond the picture");
  }

  const uint32_t* first;
  const float* weights;
  size_t count;
  size_t taps;
};

// Adds `kTaps` weighted rows, each `stride` bytes long, to the sums, or sets them to what they add up to.
template <size_t kTaps, bool kIsFirst>
void add_rows(const uint8_t* __restrict from, size_t stride, const float* weights, float* __restrict sums) {
  for (size_t i = 0; i < stride; ++i) {
    float sum = kIsFirst ? 0.0F : sums[i];
    for (size_t tap = 0; tap < kTaps; ++tap) sum += weights[tap] * static_cast<float>(from[tap * stride + i]);
    sums[i] = sum;
  }
}

void mix_rows(const uint8_t* from, size_t stride, const float* weights, size_t taps, float* sums) {
  if (taps == 1) return add_rows<1, true>(from, stride, weights, sums);
  if (taps == 3) return add_rows<3, true>(from, stride, weights, sums);
  add_rows<2, true>(from, stride, weights, sums);
  size_t tap = 2;
  for (; tap + 2 <= taps; tap += 2) add_rows<2, false>(from + tap * stride, stride, weights + tap, sums);
  if (tap < taps) add_rows<1, false>(from + tap * stride, stride, weights + tap, sums);
}

// Four numbers of one register, which GCC and Clang have on every processor.
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Integers = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

Floats load(const float* from) {
  Floats loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

// `row` has one float more than its pixels need.
void mix_columns(const float* row, const Axis& columns, uint8_t* to) {
  const Floats none = {};
  const Floats half = {0.5F, 0.5F, 0.5F, 0.5F};
  const Floats most = {255.0F, 255.0F, 255.0F, 255.0F};
  for (size_t x = 0; x < columns.count; ++x, to += kChannels) {
    const float* from = row + columns.first[x] * kChannels;
    const float* weights = columns.weights + x * columns.taps;
    Floats sum = load(from) * weights[0];
    for (size_t tap = 1; tap < columns.taps; ++tap) sum += load(from + tap * kChannels) * weights[tap];
    sum += half;
    sum = sum > most ? most : sum;
    sum = sum > none ? sum : none;  // NaN too
    const Integers bytes = __builtin_convertvector(sum, Integers);
    for (size_t channel = 0; channel < kChannels; ++channel) to[channel] = static_cast<uint8_t>(bytes[channel]);
  }
}

}  // namespace

nb::object resample(Pixels pixels, First row_first, Weights row_weights, First column_first, Weights column_weights) {
  const size_t stride = pixels.shape(1) * kChannels;
  const Axis rows(row_first, row_weights, pixels.shape(0));
  const Axis columns(column_first, column_weights, pixels.shape(1));
  const size_t wide = columns.count * kChannels;
  auto made = std::make_unique<uint8_t[]>(std::max<size_t>(rows.count * wide, 1));
  {
    nb::gil_scoped_release free_threads;
    std::vector<float> sums(stride + 1);
    for (size_t y = 0; y < rows.count; ++y) {
      mix_rows(pixels.data() + rows.first[y] * stride, stride, rows.weights + y * rows.taps, rows.taps, sums.data());
      mix_columns(sums.data(), columns, made.get() + y * wide);
    }
  }
  uint8_t* const data = made.release();
  nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<uint8_t*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, uint8_t>(data, {rows.count, columns.count, kChannels}, owner));
}

}  // namespace alcove::binding
