// AVX-512 with VNNI, for inputs of few channels: 8 pixels of 16 or 32 outputs at a time, without gathering patches.
//
// The lines that a row of output looks at are copied, with the padding, into a buffer; a row of a patch is then a few bytes
// side by side there, and its groups of 4 are read where they lie.  So each row of the kernel begins a group: the weights are
// moved once for a call, with zeros where a group has bytes of the next pixel.  Inputs are shifted to [0, 255], and
// 128 * sum of weights is taken off the bias.
#include <immintrin.h>

#include <cstring>

#include "kernels/operators/conv2d_i8/conv2d_i8.h"
#include "kernels/simd/requantize_avx512.h"

namespace alcove::kernels {

namespace {

constexpr size_t kPixels = 8;
constexpr size_t kMostPanels = 2;
constexpr size_t kMostLines = 8;     // rows of the kernel
constexpr size_t kMostGroups = 8;    // in a row of the kernel
constexpr size_t kMinPixels = 128;   // fewer don't make up for moving weights
constexpr size_t kLineBytes = 1024;  // of the buffer

class Lines {
 public:
  explicit Lines(const Conv2dI8& a) noexcept
      : a_(a),
        requantize_(int8_range(a.low, a.high, a.zero_point)),
        patch_row_(a.kernel_w * a.in_c),
        groups_((patch_row_ + 3) / 4),
        step_(a.stride_w * a.in_c) {}

  void convolve() noexcept {
    const size_t most = most_pixels(a_);
    const size_t panels = (a_.out_c + 15) / 16;
    for (first_ = 0; first_ < panels; first_ += count_) {
      count_ = panels - first_ < kMostPanels ? panels - first_ : kMostPanels;
      for (size_t p = 0; p < count_; ++p) set_panel(p);
      for (size_t batch = 0; batch < a_.batch; ++batch) {
        for (size_t row = 0; row < a_.out_h; ++row) {
          for (size_t column = 0; column < a_.out_w; column += most) {
            const size_t pixels = a_.out_w - column < most ? a_.out_w - column : most;
            copy(batch, row, column, pixels);
            int8_t* output = a_.output + ((batch * a_.out_h + row) * a_.out_w + column) * a_.out_c + first_ * 16;
            for (size_t pixel = 0; pixel < pixels; pixel += kPixels, output += kPixels * a_.out_c) {
              (count_ == 1 ? tile<1>(pixel, pixels - pixel, output) : tile<2>(pixel, pixels - pixel, output));
            }
          }
        }
      }
    }
  }

  // That fit the buffer, whole tiles; 0 if there is no room for one.
  static size_t most_pixels(const Conv2dI8& a) noexcept {
    return ((kLineBytes - kMostGroups * 4) / (a.stride_w * a.in_c) + 1) / kPixels * kPixels;
  }

 private:
  void set_panel(size_t p) noexcept {
    const int8_t* head = a_.panels + (first_ + p) * panel_bytes_i8(a_.kernel_h * patch_row_);
    std::memset(weights_[p], 0, a_.kernel_h * groups_ * 64);
    for (size_t k = 0; k < a_.kernel_h * patch_row_; ++k) {
      const size_t line = k / patch_row_, byte = k % patch_row_;
      const int8_t* from = head + kPanelHeadBytes + k / 4 * 64 + k % 4;
      int8_t* to = weights_[p] + (line * groups_ + byte / 4) * 64 + byte % 4;
      for (size_t c = 0; c < 64; c += 4) to[c] = from[c];
    }
    __m512i excess = _mm512_setzero_si512();
    for (size_t i = 0; i < a_.kernel_h * groups_; ++i) {
      excess = _mm512_dpbusd_epi32(excess, _mm512_set1_epi8(-128), _mm512_load_si512(weights_[p] + i * 64));
    }
    start_[p] = _mm512_sub_epi32(_mm512_loadu_si512(head), excess);
    scale_[p] = _mm512_loadu_ps(head + 64);
  }

  // The lines of some pixels from (row, column) on.
  void copy(size_t batch, size_t row, size_t column, size_t pixels) noexcept {
    const __m512i shift = _mm512_set1_epi8(-128);
    const auto padding = static_cast<uint8_t>(a_.input_zero_point + 128);
    const int64_t left = static_cast<int64_t>(column * a_.stride_w) - static_cast<int64_t>(a_.pad_left);
    const auto columns = static_cast<int64_t>((pixels - 1) * a_.stride_w + a_.kernel_w);
    const int64_t reach = static_cast<int64_t>(a_.in_w) - left;
    const int64_t begin = left < 0 ? (-left < columns ? -left : columns) : 0;
    const int64_t end = reach < begin ? begin : (reach < columns ? reach : columns);
    const size_t from = static_cast<size_t>(begin) * a_.in_c, bytes = static_cast<size_t>(end - begin) * a_.in_c;
    for (size_t i = 0; i < a_.kernel_h; ++i) {
      uint8_t* const line = lines_[i];
      const int64_t at = static_cast<int64_t>(row * a_.stride_h + i * a_.dilation_h) - static_cast<int64_t>(a_.pad_top);
      const bool is_inside = at >= 0 && at < static_cast<int64_t>(a_.in_h);
      if (!is_inside || bytes < static_cast<size_t>(columns) * a_.in_c) {
        std::memset(line, padding, static_cast<size_t>(columns) * a_.in_c);
      }
      if (!is_inside || bytes == 0) continue;
      const int8_t* x =
          a_.input +
          ((batch * a_.in_h + static_cast<size_t>(at)) * a_.in_w + static_cast<size_t>(left + begin)) * a_.in_c;
      for (size_t b = 0; b < bytes; b += 64) {
        const __mmask64 mask = bytes - b >= 64 ? ~__mmask64{0} : (__mmask64{1} << (bytes - b)) - 1;
        _mm512_mask_storeu_epi8(line + from + b, mask, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, x + b), shift));
      }
    }
  }

  template <size_t kPanels>
  void tile(size_t pixel, size_t pixels, int8_t* output) const noexcept {
    __m512i acc[kPanels][kPixels];
#pragma GCC unroll 2
    for (size_t p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
      for (auto& sum : acc[p]) sum = start_[p];
    }
    const size_t step = step_;
    size_t weights = 0;
    for (size_t i = 0; i < a_.kernel_h; ++i) {
      const uint8_t* x = lines_[i] + pixel * step;
      for (size_t group = 0; group < groups_; ++group, x += 4, weights += 64) {
        __m512i w[kPanels];
#pragma GCC unroll 2
        for (size_t p = 0; p < kPanels; ++p) w[p] = _mm512_load_si512(weights_[p] + weights);
#pragma GCC unroll 8
        for (size_t r = 0; r < kPixels; ++r) {
          int32_t four;
          std::memcpy(&four, x + r * step, 4);
          const __m512i fours = _mm512_set1_epi32(four);
#pragma GCC unroll 2
          for (size_t p = 0; p < kPanels; ++p) acc[p][r] = _mm512_dpbusd_epi32(acc[p][r], fours, w[p]);
        }
      }
    }
#pragma GCC unroll 2
    for (size_t p = 0; p < kPanels; ++p) {
      const size_t lanes = a_.out_c - (first_ + p) * 16;
#pragma GCC unroll 8
      for (auto& sum : acc[p]) sum = requantize_.words(sum, scale_[p]);
#pragma GCC unroll 2
      for (size_t r = 0; r < kPixels; r += 4) {
        const __m512i rows = requantize_.rows(acc[p][r], acc[p][r + 1], acc[p][r + 2], acc[p][r + 3]);
        int8_t* to = output + r * a_.out_c + p * 16;
        if (r < pixels) store_row(to, _mm512_castsi512_si128(rows), lanes);
        if (r + 1 < pixels) store_row(to + a_.out_c, _mm512_extracti32x4_epi32(rows, 1), lanes);
        if (r + 2 < pixels) store_row(to + 2 * a_.out_c, _mm512_extracti32x4_epi32(rows, 2), lanes);
        if (r + 3 < pixels) store_row(to + 3 * a_.out_c, _mm512_extracti32x4_epi32(rows, 3), lanes);
      }
    }
  }

  const Conv2dI8& a_;
  const Requantize64 requantize_;
  const size_t patch_row_, groups_, step_;
  size_t first_ = 0, count_ = 0;  // panels
  __m512i start_[kMostPanels];    // of sums of shifted inputs
  __m512 scale_[kMostPanels];
  alignas(64) int8_t weights_[kMostPanels][kMostLines * kMostGroups * 64];
  uint8_t lines_[kMostLines][kLineBytes] = {};  // what is beyond the last pixel takes part in nothing that is written
};

}  // namespace

void conv2d_i8_avx512_vnni_8x32(const Conv2dI8& a) noexcept {
  const bool is_narrow =
      a.groups == 1 && a.dilation_w == 1 && a.kernel_h <= kMostLines && a.kernel_w * a.in_c <= kMostGroups * 4;
  const bool is_pointwise = a.kernel_h == 1 && a.kernel_w == 1;
  if (is_narrow && !is_pointwise && a.batch * a.out_h * a.out_w >= kMinPixels && Lines::most_pixels(a) > 0) {
    return Lines(a).convolve();
  }
  conv2d_i8_scalar(a);
}

}  // namespace alcove::kernels
