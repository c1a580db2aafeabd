// AVX-512 with VNNI: 4 pixels of 16 channels, and four taps of a column of the kernel in each product.
//
// Four rows of the input are laid side by side, byte by byte ("quads": for each column the four bytes of channel 0, of channel
// 1, ..), in a buffer that has the padding too.  A quad serves several rows of the output: their weights are the same, further
// up or down by whole bytes and with zeros where the quad has rows that a row of the output doesn't look at.  Inputs are
// shifted to [0, 255], and 128 * sum of weights is taken off the bias.
#include <immintrin.h>

#include <cstring>

#include "kernels/microkernels/depthwise_conv2d_i8/depthwise_conv2d_i8.h"
#include "kernels/simd/requantize_avx512.h"

namespace alcove::kernels {

namespace {

constexpr size_t kMostColumns = 128;  // of the input in the buffer, which is to stay in the fastest cache
constexpr size_t kMostBytes = 32768;  // of the input for some rows of output
constexpr size_t kPixels = 4;         // in a tile

// Channel c of the four rows in bytes 4 * c to 4 * c + 3.
inline __m512i side_by_side(__m128i a, __m128i b, __m128i c, __m128i d) noexcept {
  const __m256i ab = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
  const __m256i cd = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
  const __m512i fours = _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0),
                                                 _mm512_inserti64x4(_mm512_castsi256_si512(ab), cd, 1));
  return _mm512_shuffle_epi8(fours, _mm512_set4_epi32(0x0F0B0703, 0x0E0A0602, 0x0D090501, 0x0C080400));
}

// kKernel rows and columns, kStride in both; kQuads quads of input rows for kRows rows of output.
template <int kKernel, int kStride, int kQuads, int kRows>
class Panel {
 public:
  explicit Panel(const DepthwiseConv2dI8& a) noexcept : a_(a), requantize_(int8_range(a.low, a.high, a.zero_point)) {}

  void convolve() noexcept {
    const size_t most = (kMostColumns - kKernel) / kStride / kPixels * kPixels;
    // As many rows at a time as the input's for them stay in the cache until their last panel.
    const size_t steps = kMostBytes / (a_.in_w * a_.channels * kStride * kRows);
    const size_t band = (steps > 1 ? steps : 1) * kRows;
    for (size_t batch = 0; batch < a_.batch; ++batch) {
      for (size_t first = 0; first < a_.out_h; first += band) {
        const size_t end = a_.out_h - first < band ? a_.out_h : first + band;
        for (size_t panel = 0; panel * 16 < a_.channels; ++panel) {
          set_panel(panel);
          for (size_t row = first; row < end; row += kRows) {
            for (size_t column = 0; column < a_.out_w; column += most) {
              const size_t count = a_.out_w - column < most ? a_.out_w - column : most;
              gather(batch, row, column, count);
              int8_t* output = a_.output + ((batch * a_.out_h + row) * a_.out_w + column) * a_.channels + channel_;
              for (size_t r = 0; r < kRows && row + r < end; ++r, output += a_.out_w * a_.channels)
                write_output_row(r, output, count);
            }
          }
        }
      }
    }
  }

 private:
  void set_panel(size_t panel) noexcept {
    channel_ = panel * 16;
    const size_t left = a_.channels - channel_;
    lanes_ = left < 16 ? left : 16;
    const int8_t* head = a_.panels + panel * depthwise_panel_bytes_i8(kKernel * kKernel);
    bias_ = _mm512_loadu_si512(head);
    scale_ = _mm512_loadu_ps(head + 64);
    __m512i excess = _mm512_setzero_si512();
    for (int t = 0; t < kKernel; ++t) {
      for (int q = 0; q < kQuads; ++q) {
        __m128i taps[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const int row = 4 * q + i;
          const int8_t* from = head + 128 + (row * kKernel + t) * 16;
          taps[i] = row < kKernel ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)) : _mm_setzero_si128();
        }
        weights_[q][t] = side_by_side(taps[0], taps[1], taps[2], taps[3]);
        excess = _mm512_dpbusd_epi32(excess, _mm512_set1_epi8(-128), weights_[q][t]);
      }
    }
    bias_ = _mm512_sub_epi32(bias_, excess);
  }

  // The quads of what `count` pixels from (row, column) on look at.
  void gather(size_t batch, size_t row, size_t column, size_t count) noexcept {
    const __m128i fill = _mm_set1_epi8(static_cast<int8_t>(a_.input_zero_point));
    alignas(16) int8_t outside[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(outside), fill);
    const __m512i shift = _mm512_set1_epi8(-128);
    const __m512i padding = _mm512_xor_si512(_mm512_broadcast_i32x4(fill), shift);
    const auto mask = static_cast<__mmask16>((1u << lanes_) - 1u);
    const int64_t top = static_cast<int64_t>(row * kStride) - static_cast<int64_t>(a_.pad_top);
    const int64_t left = static_cast<int64_t>(column * kStride) - static_cast<int64_t>(a_.pad_left);
    const int64_t columns = static_cast<int64_t>((count - 1) * kStride + kKernel);
    const int64_t reach = static_cast<int64_t>(a_.in_w) - left;
    const int64_t begin = left < 0 ? (-left < columns ? -left : columns) : 0;
    const int64_t end = reach < begin ? begin : (reach < columns ? reach : columns);
    for (int q = 0; q < kQuads; ++q) {
      __m512i* const to = quads_[q];
      const int8_t* lines[4];
      size_t steps[4];
      for (int i = 0; i < 4; ++i) {
        const int64_t at = top + 4 * q + i;
        const bool is_inside = at >= 0 && at < static_cast<int64_t>(a_.in_h);
        const size_t pixel = (batch * a_.in_h + static_cast<size_t>(at)) * a_.in_w + static_cast<size_t>(left + begin);
        lines[i] = is_inside ? a_.input + pixel * a_.channels + channel_ : outside;
        steps[i] = is_inside ? a_.channels : 0;
      }
      for (int64_t c = 0; c < begin; ++c) to[c] = padding;
      for (int64_t c = begin; c < end; ++c) {
        __m128i bytes[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          bytes[i] = _mm_maskz_loadu_epi8(mask, lines[i]);
          lines[i] += steps[i];
        }
        to[c] = _mm512_xor_si512(side_by_side(bytes[0], bytes[1], bytes[2], bytes[3]), shift);
      }
      for (int64_t c = end; c < columns; ++c) to[c] = padding;
    }
  }

  void write_output_row(size_t r, int8_t* output, size_t count) noexcept {
    const auto up = static_cast<unsigned>(8 * kStride * r);  // a shift by 32 bits or more gives 0
    __m512i w[kQuads][kKernel];
#pragma GCC unroll 8
    for (int t = 0; t < kKernel; ++t) {
#pragma GCC unroll 2
      for (int q = 0; q < kQuads; ++q) {
        w[q][t] = _mm512_sll_epi32(weights_[q][t], _mm_cvtsi32_si128(static_cast<int>(up)));
        if (q > 0) {
          const __m128i down = _mm_cvtsi32_si128(static_cast<int>(32 - up));
          w[q][t] = _mm512_or_si512(w[q][t], _mm512_srl_epi32(weights_[q - 1][t], down));
        }
      }
    }
    const __m512i bias = bias_;
    const __m512 scale = scale_;
    const Requantize64 requantize = requantize_;
    const size_t lanes = lanes_, channels = a_.channels;
    for (size_t pixel = 0; pixel < count; pixel += kPixels, output += kPixels * channels) {
      __m512i acc[kPixels];
#pragma GCC unroll 4
      for (auto& sum : acc) sum = bias;
#pragma GCC unroll 16
      for (int c = 0; c < static_cast<int>(kPixels - 1) * kStride + kKernel; ++c) {
#pragma GCC unroll 2
        for (int q = 0; q < kQuads; ++q) {
          const __m512i x = quads_[q][pixel * kStride + static_cast<size_t>(c)];
#pragma GCC unroll 4
          for (int p = 0; p < static_cast<int>(kPixels); ++p) {
            const int t = c - p * kStride;
            if (t >= 0 && t < kKernel) acc[p] = _mm512_dpbusd_epi32(acc[p], x, w[q][t]);
          }
        }
      }
#pragma GCC unroll 4
      for (auto& sum : acc) sum = requantize.words(sum, scale);
      const __m512i rows = requantize.rows(acc[0], acc[1], acc[2], acc[3]);
      const size_t here = count - pixel;
      store_row(output, _mm512_castsi512_si128(rows), lanes);
      if (here > 1) store_row(output + channels, _mm512_extracti32x4_epi32(rows, 1), lanes);
      if (here > 2) store_row(output + 2 * channels, _mm512_extracti32x4_epi32(rows, 2), lanes);
      if (here > 3) store_row(output + 3 * channels, _mm512_extracti32x4_epi32(rows, 3), lanes);
    }
  }

  const DepthwiseConv2dI8& a_;
  const Requantize64 requantize_;
  size_t channel_ = 0, lanes_ = 0;
  __m512i bias_;
  __m512 scale_;
  __m512i weights_[kQuads][kKernel];                         // of the first row of output
  __m512i quads_[kQuads][kMostColumns + kPixels * kStride];  // a tile looks beyond the last pixel
};

template <int kKernel, int kStride, int kQuads, int kRows>
void convolve(const DepthwiseConv2dI8& a) noexcept {
  Panel<kKernel, kStride, kQuads, kRows>(a).convolve();
}

}  // namespace

void depthwise_conv2d_i8_avx512_vnni_4x16(const DepthwiseConv2dI8& a) noexcept {
  const bool is_dense = a.dilation_h == 1 && a.dilation_w == 1 && a.kernel_h == a.kernel_w && a.stride_h == a.stride_w;
  if (is_dense && a.kernel_w == 3 && a.stride_w == 1) return convolve<3, 1, 1, 2>(a);
  if (is_dense && a.kernel_w == 3 && a.stride_w == 2) return convolve<3, 2, 1, 1>(a);
  if (is_dense && a.kernel_w == 5 && a.stride_w == 1) return convolve<5, 1, 2, 4>(a);
  if (is_dense && a.kernel_w == 5 && a.stride_w == 2) return convolve<5, 2, 2, 2>(a);
  depthwise_conv2d_i8_avx512_4x16(a);
}

}  // namespace alcove::kernels
