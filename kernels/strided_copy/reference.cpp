// The walk over two strided sides, and the copy that is made of it.
#include "kernels/strided_copy/strided_copy.h"

#include <cstring>

namespace alcove::kernels {

namespace {

// One dimension of the walk; strides in bytes.
struct Axis {
  size_t count;
  ptrdiff_t from;
  ptrdiff_t to;
};

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

// Runs of up to 16 bytes, too short for a call of memcpy to pay.
void copy_run(uint8_t* to, const uint8_t* from, size_t bytes) noexcept {
  if (bytes > 16) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 8) {  // two halves that may overlap
    uint64_t head, tail;
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + bytes - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + bytes - 8, &tail, 8);
  } else if (bytes >= 4) {
    uint32_t head, tail;
    std::memcpy(&head, from, 4);
    std::memcpy(&tail, from + bytes - 4, 4);
    std::memcpy(to, &head, 4);
    std::memcpy(to + bytes - 4, &tail, 4);
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

void rows_of_runs(const uint8_t* from, uint8_t* to, const Axis& rows, size_t bytes) noexcept {
  for (size_t i = 0; i < rows.count; ++i) {
    copy_run(to, from, bytes);
    from += rows.from;
    to += rows.to;
  }
}

// Elements of type T that lie apart on one side or on both.
template <typename T>
void line(const uint8_t* from, uint8_t* to, const Axis& axis) noexcept {
  if (axis.from == 0) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    for (size_t i = 0; i < axis.count; ++i) {
      std::memcpy(to, &value, sizeof(T));
      to += axis.to;
    }
    return;
  }
  for (size_t i = 0; i < axis.count; ++i) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    std::memcpy(to, &value, sizeof(T));
    from += axis.from;
    to += axis.to;
  }
}

typedef uint32_t Quad __attribute__((vector_size(16)));

// 4 x 4 elements of 4 bytes: contiguous along `a` in `from`, along `b` in `to`.
void transpose_quad(const uint8_t* from, ptrdiff_t from_step, uint8_t* to, ptrdiff_t to_step) noexcept {
  Quad r0, r1, r2, r3;
  std::memcpy(&r0, from, 16);
  std::memcpy(&r1, from + from_step, 16);
  std::memcpy(&r2, from + 2 * from_step, 16);
  std::memcpy(&r3, from + 3 * from_step, 16);
  const Quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const Quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  const Quad c0 = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  const Quad c1 = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  const Quad c2 = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  const Quad c3 = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
  std::memcpy(to, &c0, 16);
  std::memcpy(to + to_step, &c1, 16);
  std::memcpy(to + 2 * to_step, &c2, 16);
  std::memcpy(to + 3 * to_step, &c3, 16);
}

// `a` is contiguous in `from`, `b` in `to`: blocks keep both sides' cache lines until they are used up.
template <typename T>
void transpose(const uint8_t* from, uint8_t* to, const Axis& a, const Axis& b) noexcept {
  constexpr size_t kBlock = 32;
  const auto at = [](size_t i, ptrdiff_t step) { return static_cast<ptrdiff_t>(i) * step; };
  for (size_t i0 = 0; i0 < a.count; i0 += kBlock) {
    const size_t i1 = a.count - i0 < kBlock ? a.count : i0 + kBlock;
    for (size_t j0 = 0; j0 < b.count; j0 += kBlock) {
      const size_t j1 = b.count - j0 < kBlock ? b.count : j0 + kBlock;
      size_t i = i0;
      if constexpr (sizeof(T) == 4) {
        for (; i + 4 <= i1; i += 4) {
          size_t j = j0;
          for (; j + 4 <= j1; j += 4) {
            transpose_quad(from + at(i, a.from) + at(j, b.from), b.from, to + at(i, a.to) + at(j, b.to), a.to);
          }
          for (size_t k = i; k < i + 4; ++k) {
            line<T>(from + at(k, a.from) + at(j, b.from), to + at(k, a.to) + at(j, b.to), {j1 - j, b.from, b.to});
          }
        }
      }
      for (; i < i1; ++i) {
        line<T>(from + at(i, a.from) + at(j0, b.from), to + at(i, a.to) + at(j0, b.to), {j1 - j0, b.from, b.to});
      }
    }
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
void move_elements(const StridedMove& m, Walk& walk) noexcept {
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
             [&](const uint8_t* from, uint8_t* to) noexcept { rows_of_runs(from, to, rows, bytes); });
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
    for_each(m.from, m.to, walk.axes, outer,
             [&](const uint8_t* from, uint8_t* to) noexcept { transpose<T>(from, to, axis_a, axis_b); });
    return;
  }
  for_each(m.from, m.to, walk.axes, walk.rank - 1,
           [&](const uint8_t* from, uint8_t* to) noexcept { line<T>(from, to, last); });
}

}  // namespace

void move_strided(const StridedMove& m) noexcept {
  Walk walk = simplify(m);
  if (walk.rank == 0) {
    std::memcpy(m.to, m.from, m.element_bytes);
    return;
  }
  switch (m.element_bytes) {
    case 1: return move_elements<uint8_t>(m, walk);
    case 2: return move_elements<uint16_t>(m, walk);
    case 4: return move_elements<uint32_t>(m, walk);
    default: return move_elements<uint64_t>(m, walk);
  }
}

void strided_copy_reference(const StridedCopy& a) noexcept {
  StridedMove move{};
  move.from = a.input + a.offset * static_cast<int64_t>(a.element_bytes);
  move.to = a.output;
  move.element_bytes = a.element_bytes;
  move.rank = a.rank;
  int64_t stride = 1;
  for (size_t d = a.rank; d-- > 0;) {
    move.dims[d] = a.dims[d];
    move.from_strides[d] = a.strides[d];
    move.to_strides[d] = stride;
    stride *= static_cast<int64_t>(a.dims[d]);
  }
  move_strided(move);
}

}  // namespace alcove::kernels
