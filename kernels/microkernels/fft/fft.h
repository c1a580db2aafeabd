// The discrete Fourier transform of rows: y[k] = scale * the sum over j of x[j] exp(-2 pi i j k / n), with real and imaginary
// parts in tensors of their own; the inverse is that of exchanged parts, exchanged again.
//
// A row of n = first * second points is a matrix [first][second] (Cooley and Tukey 1965): its columns are transformed, each
// element (k, j) is turned by table entry (k, j), the matrix is transposed, and its columns are transformed again.  Columns are
// transformed together, in passes of a radix each that leave their results in order (Stockham): first one or two passes of
// 4, then all of 8, then a pass of 2 if the power of two is odd and alone, then the passes of 3, of 5, of 7.  impl.cpp has each
// butterfly; a turn of (a, b) by (c, s) is (fma(a, c, -(b * s)), fma(a, s, b * c)), and the turn 1 of the first butterfly of
// a pass is left out.
//
// rfft takes rows of 2n real numbers as n complex ones, even and odd places, and gives n + 1 frequencies: with z the
// transform and z' = conj(z[n - k]), e = (z + z') / 2 and o = (z - z') / 2i,  y[k] = e + w[k] o;  y[0] and y[n] are re + im
// and re - im of z[0], and have the imaginary part +0.  irfft does the same backwards, and reads no imaginary part of y[0]
// and y[n].
//
// The table holds real and then imaginary parts of: exp(-2 pi i k j / n) for k < first, j < second; exp(-2 pi i j / first) for
// j < first; exp(-2 pi i j / second); and for rfft and irfft w[k] = exp(-pi i k / n) for k < n.
//
// Every NaN that leaves is 0x7FC00000.
//
// The caller has checked: is_smooth(first) and is_smooth(second), rows at least 1, the table has fft_table_width columns,
// scratch has fft_scratch_floats, and outputs overlap nothing.  No pointer needs more alignment than a float.  Any number of
// threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct FftF32 {
  const float* re;     // [rows][n]; of rfft [rows][2n], of irfft [rows][n + 1]
  const float* im;     // like re; not read by rfft
  const float* table;  // [2][table_width]
  float* out_re;       // [rows][n]; of rfft [rows][n + 1], of irfft [rows][2n]
  float* out_im;       // like out_re; not written by irfft
  float* scratch;
  size_t rows, first, second;
  float scale;
};

using FftF32Kernel = void(const FftF32&) noexcept;

FftF32Kernel fft_f32_scalar, fft_f32_avx2, fft_f32_avx512, fft_f32_neon;
FftF32Kernel rfft_f32_scalar, rfft_f32_avx2, rfft_f32_avx512, rfft_f32_neon;
FftF32Kernel irfft_f32_scalar, irfft_f32_avx2, irfft_f32_avx512, irfft_f32_neon;

// Whether a size at least 1 has no prime factor above 7.
constexpr bool is_smooth(size_t size) noexcept {
  constexpr size_t kPrimes[] = {2, 3, 5, 7};
  for (const size_t prime : kPrimes) {
    while (size % prime == 0) size /= prime;
  }
  return size == 1;
}

constexpr uint64_t fft_table_width(uint64_t first, uint64_t second, bool is_real) noexcept {
  return first * second * (is_real ? 2 : 1) + first + second;
}

// Rows that are transformed together, as columns, where first is 1.
constexpr size_t fft_block_rows(uint64_t first) noexcept { return first == 1 ? 16 : 1; }

// For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size fft_scratch_floats(Size points, uint64_t first) noexcept {
  return points * (4 * fft_block_rows(first));
}

}  // namespace alcove::kernels
