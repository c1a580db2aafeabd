// The transforms of winograd_conv2d, for vectors V of channels.
#include "kernels/simd/per_isa.h"
#include "kernels/simd/vector.h"
#include "kernels/operators/winograd_conv2d/winograd_conv2d.h"

namespace alcove::kernels {

namespace {

inline constexpr float kRoot2 = 1.41421356237309505f, kRootHalf = 0.707106781186547524f;
inline constexpr float kRoot2Cubed = 2.82842712474619010f, kRootHalfCubed = 0.353553390593273762f;

template <class V>
struct Winograd {
  using R = typename V::Register;

  static R scaled_add(float factor, R x, R y) noexcept { return V::fma(V::fill(factor), x, y); }

  // d by B: 0; +-sqrt(2); +-sqrt(1/2); infinity.
  static void transform_input(const R (&d)[6], R (&v)[6]) noexcept {
    const R even = scaled_add(-0.5f, d[2], d[4]), odd = scaled_add(-0.5f, d[1], d[3]);
    const R even_half = scaled_add(-2.0f, d[2], d[4]), odd_half = scaled_add(-2.0f, d[1], d[3]);
    v[0] = scaled_add(-2.5f, d[2], V::add(d[0], d[4]));
    v[1] = scaled_add(kRoot2, odd, even);
    v[2] = scaled_add(-kRoot2, odd, even);
    v[3] = scaled_add(kRootHalf, odd_half, even_half);
    v[4] = scaled_add(-kRootHalf, odd_half, even_half);
    v[5] = scaled_add(-2.5f, d[3], V::add(d[1], d[5]));
  }

  // m by A: powers of the points.
  static void transform_output(const R (&m)[6], R (&y)[4]) noexcept {
    const R sum = V::add(m[1], m[2]), difference = scaled_add(-1.0f, m[2], m[1]);
    const R sum_half = V::add(m[3], m[4]), difference_half = scaled_add(-1.0f, m[4], m[3]);
    y[0] = V::add(V::add(m[0], sum), sum_half);
    y[1] = scaled_add(kRoot2, difference, V::multiply(V::fill(kRootHalf), difference_half));
    y[2] = scaled_add(2.0f, sum, V::multiply(V::fill(0.5f), sum_half));
    y[3] = scaled_add(kRoot2Cubed, difference, scaled_add(kRootHalfCubed, difference_half, m[5]));
  }

  const WinogradConv2dF32& a;
  size_t tiles_h = (a.out_h + 3) / 4, tiles_w = (a.out_w + 3) / 4;
  size_t block = winograd_block_tiles(a.in_c, a.out_c);
  size_t in_plane = winograd_plane_floats<size_t>(block, a.in_c),
         out_plane = winograd_plane_floats<size_t>(block, a.out_c);
  float* products = a.scratch + kWinogradPlanes * in_plane;

  struct Corner {
    size_t batch, row, column;  // of the first output pixel
  };
  Corner find_corner(size_t tile) const noexcept {
    return {tile / (tiles_h * tiles_w), tile / tiles_w % tiles_h * 4, tile % tiles_w * 4};
  }

  // The transformed input of one tile, into its place in every plane.
  void read(size_t tile, float* planes) const noexcept {
    const Corner at = find_corner(tile);
    const float* image = a.input + at.batch * a.in_h * a.in_w * a.in_c;
    bool has_row[6], has_column[6];
    size_t first[6], step[6];
    for (size_t i = 0; i < 6; ++i) {
      has_row[i] = at.row + i >= a.pad_top && at.row + i - a.pad_top < a.in_h;
      has_column[i] = at.column + i >= a.pad_left && at.column + i - a.pad_left < a.in_w;
      first[i] = has_row[i] ? (at.row + i - a.pad_top) * a.in_w * a.in_c : 0;
      step[i] = has_column[i] ? (at.column + i - a.pad_left) * a.in_c : 0;
    }
    for (size_t c = 0; c < a.in_c; c += V::kWidth) {
      const size_t lanes = a.in_c - c < V::kWidth ? a.in_c - c : V::kWidth;
      R down[6][6];
      for (size_t j = 0; j < 6; ++j) {
        R d[6], v[6];
#pragma GCC unroll 6
        for (size_t i = 0; i < 6; ++i) {
          d[i] = has_row[i] && has_column[j] ? V::load(image + first[i] + step[j] + c, lanes) : V::fill(0.0f);
        }
        transform_input(d, v);
#pragma GCC unroll 6
        for (size_t i = 0; i < 6; ++i) down[i][j] = v[i];
      }
      float* plane = planes + c;
      for (size_t i = 0; i < 6; ++i) {
        R v[6];
        transform_input(down[i], v);
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; ++j, plane += in_plane) V::store(plane, lanes, v[j]);
      }
    }
  }

  // The pixels of one tile that the output has, from its place in every plane.
  void write(size_t tile, const float* planes) const noexcept {
    const Corner at = find_corner(tile);
    const size_t rows = a.out_h - at.row < 4 ? a.out_h - at.row : 4;
    const size_t columns = a.out_w - at.column < 4 ? a.out_w - at.column : 4;
    const size_t start = ((at.batch * a.out_h + at.row) * a.out_w + at.column) * a.out_c;
    for (size_t n = 0; n < a.out_c; n += V::kWidth) {
      const size_t lanes = a.out_c - n < V::kWidth ? a.out_c - n : V::kWidth;
      const R bias = V::load(a.weights + n, lanes);
      R down[4][6];
      for (size_t j = 0; j < 6; ++j) {
        R m[6], y[4];
#pragma GCC unroll 6
        for (size_t i = 0; i < 6; ++i) m[i] = V::load(planes + (i * 6 + j) * out_plane + n, lanes);
        transform_output(m, y);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; ++i) down[i][j] = y[i];
      }
      for (size_t i = 0; i < rows; ++i) {
        R y[4];
        transform_output(down[i], y);
        const size_t line = start + i * a.out_w * a.out_c + n;
        for (size_t j = 0; j < columns; ++j) {
          R made = V::add(y[j], bias);
          if (a.residual != nullptr) made = V::add(made, V::load(a.residual + line + j * a.out_c, lanes));
          V::store(a.output + line + j * a.out_c, lanes, activate<V>(a.activation, made));
        }
      }
    }
  }

  void multiply(size_t tiles) const noexcept {
    const size_t panels = (a.out_c + 15) / 16;
    LinearF32 args{};
    args.m = tiles;
    args.n = a.out_c;
    args.k = a.in_c;
    for (size_t plane = 0; plane < kWinogradPlanes; ++plane) {
      args.input = a.scratch + plane * in_plane;
      args.panels = a.weights + panels * 16 + plane * panel_floats(panels, a.in_c);
      args.output = products + plane * out_plane;
      a.linear(args);
    }
  }

  void run() const noexcept {
    const size_t tiles = a.batch * tiles_h * tiles_w;
    const size_t blocks = (tiles + block - 1) / block;
    for (size_t b = 0; b < blocks; ++b) {  // as even as can be: a last block of one tile would read all weights too
      const size_t first = tiles * b / blocks, count = tiles * (b + 1) / blocks - first;
      for (size_t i = 0; i < count; ++i) read(first + i, a.scratch + i * a.in_c);
      multiply(count);
      for (size_t i = 0; i < count; ++i) write(first + i, products + i * a.out_c);
    }
  }
};

}  // namespace

void ALCOVE_PER_ISA(winograd_conv2d_f32)(const WinogradConv2dF32& a) noexcept { Winograd<Vector>{a}.run(); }

}  // namespace alcove::kernels
