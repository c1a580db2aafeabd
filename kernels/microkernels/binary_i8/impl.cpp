// The loops of add_i8 and mul_i8, compiled once for each instruction set.
#include <cstring>

#include "kernels/microkernels/binary/broadcast.h"
#include "kernels/microkernels/binary_i8/binary_i8.h"
#include "kernels/requantize.h"
#include "kernels/simd/per_isa.h"

#if defined(ALCOVE_ISA_avx512)
#include "kernels/microkernels/binary_i8/rows_avx512.h"
#elif defined(ALCOVE_ISA_neon)
#include "kernels/simd/lanes16.h"
#endif

namespace alcove::kernels {

namespace {

// What a byte that is written cannot change.
struct Terms {
  int32_t a_zero, b_zero;
  float a_ratio, b_ratio;
};

#if defined(ALCOVE_ISA_neon)
// 16 bytes less a zero point.
struct Halves {
  int16x8_t low, high;

  Halves(int8x16_t bytes, int32_t zero) noexcept
      : low(vsubl_s8(vget_low_s8(bytes), vdup_n_s8(static_cast<int8_t>(zero)))),
        high(vsubl_high_s8(bytes, vdupq_n_s8(static_cast<int8_t>(zero)))) {}

  [[nodiscard]] Lanes16::Floats floats() const noexcept {
    return Lanes16::to_floats(
        {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)});
  }
};
#endif

struct Add {
  static float of(const Terms& x, int32_t a, int32_t b) noexcept {
    return static_cast<float>(a - x.a_zero) * x.a_ratio + static_cast<float>(b - x.b_zero) * x.b_ratio;
  }
#if defined(ALCOVE_ISA_neon)
  static Lanes16::Floats of(const Terms& x, const Halves& a, const Halves& b) noexcept {
    return Lanes16::add(Lanes16::multiply(a.floats(), Lanes16::fill(x.a_ratio)),
                        Lanes16::multiply(b.floats(), Lanes16::fill(x.b_ratio)));
  }
#endif
};

struct Mul {
  static float of(const Terms& x, int32_t a, int32_t b) noexcept {
    return static_cast<float>((a - x.a_zero) * (b - x.b_zero)) * x.a_ratio;
  }
#if defined(ALCOVE_ISA_neon)
  static Lanes16::Floats of(const Terms& x, const Halves& a, const Halves& b) noexcept {
    const Lanes16::Words products = {vmull_s16(vget_low_s16(a.low), vget_low_s16(b.low)), vmull_high_s16(a.low, b.low),
                                     vmull_s16(vget_low_s16(a.high), vget_low_s16(b.high)),
                                     vmull_high_s16(a.high, b.high)};
    return Lanes16::multiply(Lanes16::to_floats(products), Lanes16::fill(x.a_ratio));
  }
#endif
};

// Strides that are known let the compiler use whole vectors.
template <class F, size_t kA, size_t kB>
void line(const Terms x, const int8_t* a, const int8_t* b, int8_t* output, size_t count, Int8Range range) noexcept {
  size_t i = 0;
#if defined(ALCOVE_ISA_neon)
  const auto load = [](const int8_t* p, size_t at, size_t stride) noexcept {
    return stride == 0 ? vdupq_n_s8(*p) : vld1q_s8(p + at);
  };
  for (; i + 16 <= count; i += 16) {
    const Halves left(load(a, i, kA), x.a_zero), right(load(b, i, kB), x.b_zero);
    Lanes16::requantize_store(output + i, 16, F::of(x, left, right), range);
  }
#endif
  for (; i < count; ++i) output[i] = requantize(F::of(x, a[i * kA], b[i * kB]), range);
}

// Lines of `count`; an operand that moves has stride 1.
template <class F>
void any_line(const Terms& x, const int8_t* a, bool a_moves, const int8_t* b, bool b_moves, int8_t* output,
              size_t count, Int8Range range) noexcept {
  if (a_moves && b_moves) {
    line<F, 1, 1>(x, a, b, output, count, range);
  } else if (a_moves) {
    line<F, 1, 0>(x, a, b, output, count, range);
  } else if (b_moves) {
    line<F, 0, 1>(x, a, b, output, count, range);
  } else {
    line<F, 0, 0>(x, a, b, output, count, range);
  }
}

// A matrix and a row that is repeated: the row is repeated in a block first, so that lines are long.
constexpr size_t kRepeated = 512;

template <class F>
void repeated_row(const Terms& x, const int8_t* matrix, const int8_t* row, bool row_is_b, int8_t* output, size_t rows,
                  size_t columns, Int8Range range) noexcept {
  int8_t block[kRepeated];
  const size_t fitting = kRepeated / columns;
  for (size_t i = 0; i < fitting; ++i) std::memcpy(block + i * columns, row, columns);
  for (size_t done = 0; done < rows; done += fitting) {
    const size_t count = (rows - done < fitting ? rows - done : fitting) * columns;
    const size_t at = done * columns;
    const int8_t* a = row_is_b ? matrix + at : block;
    line<F, 1, 1>(x, a, row_is_b ? block : matrix + at, output + at, count, range);
  }
}

inline Walk<2> make_walk(const BinaryI8& x) noexcept {
  BroadcastShape shape{x.rank, {}};
  for (size_t d = 0; d < x.rank; ++d) shape.dims[d] = x.dims[d];
  return joined<2>(shape, {&x.a_strides, &x.b_strides});
}

// A matrix a, and b the same row for all of its rows; or the other way round.
inline bool row_is_b(const Walk<2>& walk) noexcept {
  const size_t (&a)[kBroadcastRank] = walk.strides[0];
  const size_t (&b)[kBroadcastRank] = walk.strides[1];
  return walk.rank == 2 && a[1] == 1 && b[1] == 1 && a[0] == walk.dims[1] && b[0] == 0;
}
inline bool row_is_a(const Walk<2>& walk) noexcept {
  const size_t (&a)[kBroadcastRank] = walk.strides[0];
  const size_t (&b)[kBroadcastRank] = walk.strides[1];
  return walk.rank == 2 && a[1] == 1 && b[1] == 1 && b[0] == walk.dims[1] && a[0] == 0;
}

template <class F>
void combine(const BinaryI8& x) noexcept {
  const Int8Range range = int8_range(x.low, x.high, x.zero_point);
  const Terms terms = {x.a_zero, x.b_zero, x.a_ratio, x.b_ratio};
  const Walk<2> walk = make_walk(x);
  const size_t last = walk.rank - 1, count = walk.dims[last];
  if (count < kRepeated / 2) {
    if (row_is_b(walk)) return repeated_row<F>(terms, x.a, x.b, true, x.output, walk.dims[0], count, range);
    if (row_is_a(walk)) return repeated_row<F>(terms, x.b, x.a, false, x.output, walk.dims[0], count, range);
  }
  const size_t (&a_strides)[kBroadcastRank] = walk.strides[0];
  const size_t (&b_strides)[kBroadcastRank] = walk.strides[1];
  for_runs(walk, [&](const size_t (&offsets)[2], size_t at) {
    any_line<F>(terms, x.a + offsets[0], a_strides[last] != 0, x.b + offsets[1], b_strides[last] != 0, x.output + at,
                count, range);
  });
}

#if defined(ALCOVE_ISA_avx512)
// False: the product is no matrix times a row, or one whose rows suit the plain loops better; nothing was written.
inline bool multiply_by_row(const BinaryI8& x) noexcept {
  const Walk<2> walk = make_walk(x);
  const bool is_b = row_is_b(walk);
  size_t columns = walk.dims[walk.rank - 1];
  // Rows that end within 64 bytes would be loaded just after some of their neighbours were stored, which is slow.
  if ((!is_b && !row_is_a(walk)) || (columns < 64 && 64 % columns != 0)) return false;
  const size_t count = walk.dims[0] * columns;
  const int8_t* row = is_b ? x.b : x.a;
  int8_t repeated[64];
  if (columns < 64) {
    for (size_t i = 0; i < 64; ++i) repeated[i] = row[i % columns];
    row = repeated;
    columns = 64;
  }
  const Requantize64 requantize(int8_range(x.low, x.high, x.zero_point));
  multiply_rows(is_b ? x.a : x.b, is_b ? x.a_zero : x.b_zero, row, is_b ? x.b_zero : x.a_zero, x.output, count, columns,
                x.a_ratio, requantize);
  return true;
}
#endif

}  // namespace

void ALCOVE_PER_ISA(add_i8)(const BinaryI8& a) noexcept { combine<Add>(a); }
void ALCOVE_PER_ISA(mul_i8)(const BinaryI8& a) noexcept {
#if defined(ALCOVE_ISA_avx512)
  if (multiply_by_row(a)) return;
#endif
  combine<Mul>(a);
}

}  // namespace alcove::kernels
