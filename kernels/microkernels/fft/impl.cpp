// The passes of fft, rfft and irfft, compiled once for each instruction set: loops over columns, which lie side by side.
#include "kernels/canonical.h"
#include "kernels/math/bits.h"
#include "kernels/microkernels/fft/fft.h"
#include "kernels/simd/per_isa.h"
#include "kernels/transpose_quad.h"

namespace alcove::kernels {

namespace {

#ifdef ALCOVE_ISA_scalar
constexpr bool kIsScalar = true;
#else
constexpr bool kIsScalar = false;
#endif
constexpr float kRootHalf = 0.707106781186547524f;
// cos and sin of k / radix whole turns, for k up to half of the radix.
constexpr float kCosines[3][3] = {{-0.5f, 0.0f, 0.0f},
                                  {0.309016994374947424f, -0.809016994374947424f, 0.0f},
                                  {0.623489801858733531f, -0.222520933956314404f, -0.900968867902419126f}};
constexpr float kSines[3][3] = {{0.866025403784438647f, 0.0f, 0.0f},
                                {0.951056516295153572f, 0.587785252292473129f, 0.0f},
                                {0.781831482468029809f, 0.974927912181823607f, 0.433883739117558120f}};

struct Point {
  float re, im;
};
ALCOVE_INLINE Point operator+(Point a, Point b) noexcept { return {a.re + b.re, a.im + b.im}; }
ALCOVE_INLINE Point operator-(Point a, Point b) noexcept { return {a.re - b.re, a.im - b.im}; }
ALCOVE_INLINE Point turn(Point a, Point w) noexcept {
  return {fma(a.re, w.re, -(a.im * w.im)), fma(a.re, w.im, a.im * w.re)};
}
// Times -i.
ALCOVE_INLINE Point turn_back(Point a) noexcept { return {a.im, -a.re}; }

template <size_t radix>
struct Butterfly;

template <>
struct Butterfly<2> {
  ALCOVE_INLINE static void apply(Point (&a)[2]) noexcept {
    const Point sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  }
};

template <>
struct Butterfly<4> {
  ALCOVE_INLINE static void apply(Point (&a)[4]) noexcept {
    const Point even = a[0] + a[2], odd = a[1] + a[3];
    const Point even_rest = a[0] - a[2], odd_rest = turn_back(a[1] - a[3]);
    a[0] = even + odd;
    a[1] = even_rest + odd_rest;
    a[2] = even - odd;
    a[3] = even_rest - odd_rest;
  }
};

template <>
struct Butterfly<8> {
  ALCOVE_INLINE static void apply(Point (&a)[8]) noexcept {
    Point even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
    Butterfly<4>::apply(even);
    Butterfly<4>::apply(odd);
    odd[1] = {(odd[1].re + odd[1].im) * kRootHalf, (odd[1].im - odd[1].re) * kRootHalf};
    odd[2] = turn_back(odd[2]);
    odd[3] = {(odd[3].im - odd[3].re) * kRootHalf, -((odd[3].re + odd[3].im) * kRootHalf)};
    for (int k = 0; k < 4; ++k) {
      a[k] = even[k] + odd[k];
      a[k + 4] = even[k] - odd[k];
    }
  }
};

// 3, 5 and 7: sums and differences of opposite points, each turned by the place's multiple of the first angle.
template <size_t radix>
struct Butterfly {
  static constexpr int kHalf = (radix - 1) / 2;

  ALCOVE_INLINE static void apply(Point (&a)[radix]) noexcept {
    Point sums[kHalf], rests[kHalf];
    Point total = a[0];
    for (int k = 0; k < kHalf; ++k) {
      sums[k] = a[k + 1] + a[radix - 1 - static_cast<size_t>(k)];
      rests[k] = a[k + 1] - a[radix - 1 - static_cast<size_t>(k)];
      total = total + sums[k];
    }
    for (int j = 1; j <= kHalf; ++j) {
      Point along = a[0], across = {0.0f, 0.0f};
      for (int k = 1; k <= kHalf; ++k) {
        const int turns = j * k % static_cast<int>(radix);
        const bool is_far = turns > kHalf;
        const int place = (is_far ? static_cast<int>(radix) - turns : turns) - 1;
        const float cosine = kCosines[kHalf - 1][place];
        const float sine = is_far ? -kSines[kHalf - 1][place] : kSines[kHalf - 1][place];
        along = {fma(sums[k - 1].re, cosine, along.re), fma(sums[k - 1].im, cosine, along.im)};
        across = {fma(rests[k - 1].im, sine, across.re), fma(-rests[k - 1].re, sine, across.im)};
      }
      a[j] = along + across;
      a[radix - static_cast<size_t>(j)] = along - across;
    }
    a[0] = total;
  }
};

// Rows of one matrix in two planes.
struct Planes {
  const float *re, *im;
};
struct WritablePlanes {
  float *re, *im;
};

// `inner` neighbours of one butterfly: operand k lies k * from_step further, result j goes j * inner further.
template <size_t radix>
ALCOVE_INLINE void butterflies(Planes from, size_t from_step, WritablePlanes to, size_t inner,
                               const Point (&turns)[radix], bool has_turns) noexcept {
  const float* __restrict re = from.re, * __restrict im = from.im;
  float* __restrict to_re = to.re, * __restrict to_im = to.im;
#pragma GCC ivdep
  for (size_t i = 0; i < inner; ++i) {
    Point a[radix];
#pragma GCC unroll 8
    for (size_t k = 0; k < radix; ++k) a[k] = {re[k * from_step + i], im[k * from_step + i]};
    Butterfly<radix>::apply(a);
#pragma GCC unroll 8
    for (size_t j = 0; j < radix; ++j) {
      const Point b = has_turns && j > 0 ? turn(a[j], turns[j]) : a[j];
      to_re[j * inner + i] = b.re;
      to_im[j * inner + i] = b.im;
    }
  }
}

// One pass over columns of `points` each, whose transforms of length `done` are finished: Stockham's.
template <size_t radix>
void make_pass(Planes from, WritablePlanes to, size_t points, size_t done, size_t columns, Planes roots) noexcept {
  const size_t groups = points / (done * radix), inner = done * columns;
  for (size_t p = 0; p < groups; ++p) {
    const Planes source = {from.re + p * inner, from.im + p * inner};
    const WritablePlanes target = {to.re + p * radix * inner, to.im + p * radix * inner};
    Point turns[radix];
    for (size_t j = 0; j < radix; ++j) turns[j] = {roots.re[p * j * done], roots.im[p * j * done]};
    // As vectors two loops, each without a choice; one is half as long.
    if (kIsScalar) {
      butterflies(source, groups * inner, target, inner, turns, p > 0);
    } else if (p == 0) {
      butterflies(source, groups * inner, target, inner, turns, false);
    } else {
      butterflies(source, groups * inner, target, inner, turns, true);
    }
  }
}

// The radix of the next pass over what is left of a size.
size_t next_radix(size_t left) noexcept {
  const int twos = __builtin_ctzll(left);
  if (twos > 0) return twos == 1 ? 2 : twos % 3 == 0 ? 8 : 4;
  return left % 3 == 0 ? 3 : left % 5 == 0 ? 5 : 7;
}

// Transforms each of `columns` columns of `points`; returns where the result is: `a`, `b`, or `from` if there is one point.
// `from` may be b.
Planes transform_columns(Planes from, WritablePlanes a, WritablePlanes b, size_t points, size_t columns,
                         Planes roots) noexcept {
  for (size_t done = 1; done < points;) {
    const size_t radix = next_radix(points / done);
    switch (radix) {
      case 2: make_pass<2>(from, a, points, done, columns, roots); break;
      case 3: make_pass<3>(from, a, points, done, columns, roots); break;
      case 4: make_pass<4>(from, a, points, done, columns, roots); break;
      case 5: make_pass<5>(from, a, points, done, columns, roots); break;
      case 7: make_pass<7>(from, a, points, done, columns, roots); break;
      default: make_pass<8>(from, a, points, done, columns, roots); break;
    }
    done *= radix;
    from = {a.re, a.im};
    const WritablePlanes other = b;
    b = a;
    a = other;
  }
  return from;
}

// to[j][k] = from[k][j]
void transpose(const float* from, float* to, size_t rows, size_t columns) noexcept {
  const size_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  const auto from_step = static_cast<ptrdiff_t>(columns * sizeof(float));
  const auto to_step = static_cast<ptrdiff_t>(rows * sizeof(float));
  for (size_t k = 0; k < whole_rows; k += 4) {
    for (size_t j = 0; j < whole_columns; j += 4) {
      transpose_quad(reinterpret_cast<const uint8_t*>(from + k * columns + j), from_step,
                     reinterpret_cast<uint8_t*>(to + j * rows + k), to_step);
    }
  }
  for (size_t k = 0; k < rows; ++k) {
    for (size_t j = k < whole_rows ? whole_columns : 0; j < columns; ++j) to[j * rows + k] = from[k * columns + j];
  }
}

// What a transform needs beside its rows.
struct Plan {
  size_t first, second, points;
  Planes middle, first_roots, second_roots, halves;
  WritablePlanes a, b;

  explicit Plan(const FftF32& f, bool is_real) noexcept : first(f.first), second(f.second), points(first * second) {
    const float* re = f.table;
    const float* im = re + fft_table_width(first, second, is_real);
    middle = {re, im};
    first_roots = {re + points, im + points};
    second_roots = {first_roots.re + first, first_roots.im + first};
    halves = {second_roots.re + second, second_roots.im + second};
    const size_t plane = points * fft_block_rows(first);
    a = {f.scratch, f.scratch + plane};
    b = {f.scratch + 2 * plane, f.scratch + 3 * plane};
  }
};

void transpose(Planes from, WritablePlanes to, size_t rows, size_t columns) noexcept {
  transpose(from.re, to.re, rows, columns);
  transpose(from.im, to.im, rows, columns);
}

// Transforms rows that lie one after the other, one of them or a block; returns where the results are, rows again: in `a` or `b`
// of the plan.  `from` may be b.
Planes transform_rows(const Plan& p, Planes from, size_t rows) noexcept {
  Planes made;
  if (p.first == 1) {
    transpose(from, p.a, rows, p.points);
    made = transform_columns({p.a.re, p.a.im}, p.b, p.a, p.points, rows, p.second_roots);
  } else {
    made = transform_columns(from, p.a, p.b, p.first, p.second, p.first_roots);
  }
  const bool is_in_a = made.re == p.a.re;
  const WritablePlanes mine = is_in_a ? p.a : p.b, other = is_in_a ? p.b : p.a;
  if (p.first == 1) {
    transpose(made, other, p.points, rows);
    return {other.re, other.im};
  }
  const float* __restrict cosines = p.middle.re, * __restrict sines = p.middle.im;
  float* __restrict re = mine.re, * __restrict im = mine.im;
#pragma GCC ivdep
  for (size_t i = p.second; i < p.points; ++i) {
    const Point value = turn({re[i], im[i]}, {cosines[i], sines[i]});
    re[i] = value.re;
    im[i] = value.im;
  }
  transpose(made, other, p.first, p.second);
  return transform_columns({other.re, other.im}, mine, other, p.second, p.first, p.second_roots);
}

void write(const float* __restrict from, float* __restrict to, size_t count, float scale) noexcept {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = canonical(from[i] * scale);
}

// A row of real numbers: those at even and at odd places.
void part_row(const float* __restrict row, float* __restrict even, float* __restrict odd, size_t n) noexcept {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    even[j] = row[2 * j];
    odd[j] = row[2 * j + 1];
  }
}

void join_row(const float* __restrict even, const float* __restrict odd, float* __restrict row, size_t n,
              float scale) noexcept {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    row[2 * j] = canonical(even[j] * scale);
    row[2 * j + 1] = canonical(odd[j] * scale);
  }
}

// From the transform of even and odd places as one complex row to that of all of them.
void join_frequencies(Planes z, Planes turns, WritablePlanes to, size_t n, float scale) noexcept {
  const float* __restrict re = z.re, * __restrict im = z.im;
  const float* __restrict cosines = turns.re, * __restrict sines = turns.im;
  float* __restrict to_re = to.re, * __restrict to_im = to.im;
  const float half = 0.5f * scale;
  to_re[0] = canonical((re[0] + im[0]) * scale);
  to_re[n] = canonical((re[0] - im[0]) * scale);
  to_im[0] = to_im[n] = 0.0f;
#pragma GCC ivdep
  for (size_t k = 1; k < n; ++k) {
    const Point even = {re[k] + re[n - k], im[k] - im[n - k]};
    const Point odd = turn({im[k] + im[n - k], re[n - k] - re[k]}, {cosines[k], sines[k]});
    const Point sum = even + odd;
    to_re[k] = canonical(sum.re * half);
    to_im[k] = canonical(sum.im * half);
  }
}

// And back, times 2.
void part_frequencies(Planes y, Planes turns, WritablePlanes to, size_t n) noexcept {
  const float* __restrict re = y.re, * __restrict im = y.im;
  const float* __restrict cosines = turns.re, * __restrict sines = turns.im;
  float* __restrict to_re = to.re, * __restrict to_im = to.im;
  to_re[0] = re[0] + re[n];
  to_im[0] = re[0] - re[n];
#pragma GCC ivdep
  for (size_t k = 1; k < n; ++k) {
    const Point even = {re[k] + re[n - k], im[k] - im[n - k]};
    const Point odd = turn({re[k] - re[n - k], im[k] + im[n - k]}, {cosines[k], -sines[k]});
    to_re[k] = even.re - odd.im;
    to_im[k] = even.im + odd.re;
  }
}

enum class Kind : uint8_t { complex, from_real, to_real };

template <Kind kind>
void transform(const FftF32& f) noexcept {
  const Plan p(f, kind != Kind::complex);
  const size_t n = p.points, block = fft_block_rows(p.first);
  for (size_t start = 0; start < f.rows; start += block) {
    const size_t rows = f.rows - start < block ? f.rows - start : block;
    Planes from = {p.b.re, p.b.im};
    if constexpr (kind == Kind::complex) from = {f.re + start * n, f.im + start * n};
    for (size_t r = 0; r < rows; ++r) {
      const size_t at = start + r;
      float *re = p.b.re + r * n, *im = p.b.im + r * n;
      if constexpr (kind == Kind::from_real) part_row(f.re + at * 2 * n, re, im, n);
      if constexpr (kind == Kind::to_real) {
        part_frequencies({f.re + at * (n + 1), f.im + at * (n + 1)}, p.halves, {re, im}, n);
      }
    }
    // The inverse: parts exchanged before and behind.
    if constexpr (kind == Kind::to_real) from = {from.im, from.re};
    const Planes made = transform_rows(p, from, rows);
    for (size_t r = 0; r < rows; ++r) {
      const size_t at = start + r;
      const Planes row = {made.re + r * n, made.im + r * n};
      if constexpr (kind == Kind::complex) {
        write(row.re, f.out_re + at * n, n, f.scale);
        write(row.im, f.out_im + at * n, n, f.scale);
      } else if constexpr (kind == Kind::from_real) {
        join_frequencies(row, p.halves, {f.out_re + at * (n + 1), f.out_im + at * (n + 1)}, n, f.scale);
      } else {
        join_row(row.im, row.re, f.out_re + at * 2 * n, n, f.scale);
      }
    }
  }
}

}  // namespace

void ALCOVE_PER_ISA(fft_f32)(const FftF32& f) noexcept { transform<Kind::complex>(f); }
void ALCOVE_PER_ISA(rfft_f32)(const FftF32& f) noexcept { transform<Kind::from_real>(f); }
void ALCOVE_PER_ISA(irfft_f32)(const FftF32& f) noexcept { transform<Kind::to_real>(f); }

}  // namespace alcove::kernels
