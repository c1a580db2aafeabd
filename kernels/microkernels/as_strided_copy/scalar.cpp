// The walk over two strided sides, and the copy that is made of it.
#include "kernels/copy_run.h"
#include "kernels/microkernels/as_strided_copy/as_strided_copy.h"
#include "kernels/microkernels/as_strided_copy/transpose.h"

namespace alcove::kernels {

namespace {

struct Walk {
  Axis axes[kMaxMovementRank];
  size_t rank;
};

// The dimensions that matter, outermost first; neighbours that both sides pass without a jump become one.
Walk simplify(const StridedMove& m) noexcept {
  Walk walk{};
  const auto bytes = static_cast<ptrdiff_t>(m.element_bytes);
  for (size_t d = 0; d < m.rank; ++d) {
    if (m.dims[d] == 1) continue;
    const Axis axis = {m.dims[d], static_cast<ptrdiff_t>(m.from_strides[d]) * bytes,
                       static_cast<ptrdiff_t>(m.to_strides[d]) * bytes};
    if (walk.rank > 0) {
      Axis& outer = walk.axes[walk.rank - 1];
      const auto count = static_cast<ptrdiff_t>(axis.count);
      if (outer.from == axis.from * count && outer.to == axis.to * count) {
        outer = {outer.count * axis.count, axis.from, axis.to};
        continue;
      }
    }
    walk.axes[walk.rank++] = axis;
  }
  return walk;
}

void copy_rows_of_runs(const uint8_t* from, uint8_t* to, const Axis& rows, size_t bytes) noexcept {
  for (size_t i = 0; i < rows.count; ++i) {
    copy_run(to, from, bytes);
    from += rows.from;
    to += rows.to;
  }
}

// Calls `inner` with both addresses for each position of the given dimensions.
template <typename Inner>
void for_each(const uint8_t* from, uint8_t* to, const Axis* axes, size_t rank, const Inner& inner) noexcept {
  size_t position[kMaxMovementRank] = {};
  for (;;) {
    inner(from, to);
    size_t d = rank;
    for (;;) {
      if (d == 0) return;
      const Axis& axis = axes[--d];
      if (++position[d] < axis.count) {
        from += axis.from;
        to += axis.to;
        break;
      }
      from -= axis.from * static_cast<ptrdiff_t>(axis.count - 1);
      to -= axis.to * static_cast<ptrdiff_t>(axis.count - 1);
      position[d] = 0;
    }
  }
}

template <typename T>
void move_elements(const StridedMove& m, Walk& walk, TransposeBlockFunction* transpose_words) noexcept {
  constexpr auto kBytes = static_cast<ptrdiff_t>(sizeof(T));
  const Axis last = walk.axes[walk.rank - 1];
  if (last.from == kBytes && last.to == kBytes) {
    const size_t bytes = last.count * sizeof(T);
    if (walk.rank == 1) {
      std::memcpy(m.to, m.from, bytes);
      return;
    }
    const Axis rows = walk.axes[walk.rank - 2];
    for_each(m.from, m.to, walk.axes, walk.rank - 2,
             [&](const uint8_t* from, uint8_t* to) noexcept { copy_rows_of_runs(from, to, rows, bytes); });
    return;
  }
  // A transposition: `a` contiguous here, `b` contiguous there; the others stay outside.
  size_t a = walk.rank, b = walk.rank;
  for (size_t d = 0; d < walk.rank; ++d) {
    if (walk.axes[d].from == kBytes) a = d;
    if (walk.axes[d].to == kBytes) b = d;
  }
  if (a < walk.rank && b < walk.rank && a != b) {
    const Axis axis_a = walk.axes[a], axis_b = walk.axes[b];
    size_t outer = 0;
    for (size_t d = 0; d < walk.rank; ++d) {
      if (d != a && d != b) walk.axes[outer++] = walk.axes[d];
    }
    for_each(m.from, m.to, walk.axes, outer, [&](const uint8_t* from, uint8_t* to) noexcept {
      transpose<T>(from, to, axis_a, axis_b, transpose_words);
    });
    return;
  }
  for_each(m.from, m.to, walk.axes, walk.rank - 1,
           [&](const uint8_t* from, uint8_t* to) noexcept { line<T>(from, to, last); });
}

void move(const StridedMove& m, TransposeBlockFunction* transpose_words) noexcept {
  Walk walk = simplify(m);
  if (walk.rank == 0) {
    std::memcpy(m.to, m.from, m.element_bytes);
    return;
  }
  switch (m.element_bytes) {
    case 1: return move_elements<uint8_t>(m, walk, transpose_words);
    case 2: return move_elements<uint16_t>(m, walk, transpose_words);
    case 4: return move_elements<uint32_t>(m, walk, transpose_words);
    default: return move_elements<uint64_t>(m, walk, transpose_words);
  }
}

}  // namespace

void transpose_block(const TransposeBlock& b) noexcept {
  const auto at = [](size_t i, ptrdiff_t step) { return static_cast<ptrdiff_t>(i) * step; };
  size_t column = 0;
  for (; column + 4 <= b.columns; column += 4) {
    const uint8_t* from = b.from + at(column, 4);
    uint8_t* to = b.to + at(column, b.to_step);
    size_t row = 0;
    for (; row + 4 <= b.rows; row += 4)
      transpose_quad(from + at(row, b.from_step), b.from_step, to + at(row, 4), b.to_step);
    for (size_t i = 0; i < 4; ++i)
      line<uint32_t>(from + at(i, 4) + at(row, b.from_step), to + at(i, b.to_step) + at(row, 4),
                     {b.rows - row, b.from_step, 4});
  }
  for (; column < b.columns; ++column)
    line<uint32_t>(b.from + at(column, 4), b.to + at(column, b.to_step), {b.rows, b.from_step, 4});
}

void move_strided(const StridedMove& m) noexcept { move(m, transpose_block); }

void copy_strided(const AsStridedCopy& a, TransposeBlockFunction* transpose_words) noexcept {
  StridedMove m{};
  m.from = a.input + a.offset * static_cast<int64_t>(a.element_bytes);
  m.to = a.output;
  m.element_bytes = a.element_bytes;
  m.rank = a.rank;
  int64_t stride = 1;
  for (size_t d = a.rank; d-- > 0;) {
    m.dims[d] = a.dims[d];
    m.from_strides[d] = a.strides[d];
    m.to_strides[d] = stride;
    stride *= static_cast<int64_t>(a.dims[d]);
  }
  move(m, transpose_words);
}

void as_strided_copy_scalar(const AsStridedCopy& a) noexcept { copy_strided(a, transpose_block); }

}  // namespace alcove::kernels
