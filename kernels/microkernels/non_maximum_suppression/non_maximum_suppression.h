// Boxes, best first, without those that overlap a better one: greedy non-maximum suppression.
//
// Candidates are the boxes whose score is above `score`; NaN is none.  They are taken by score descending, equal ones by index.  One is
// kept unless a kept one, of the same class, overlaps it by more than `overlap`, until `most` are kept.  All in float32, each step
// rounded, max(a, b) = a > b ? a : b and min(a, b) = a < b ? a : b:
//
//   area(x1, y1, x2, y2) = max(x2 - x1, 0) * max(y2 - y1, 0); a box whose area is not above 0 is taken as (0, 0, 0, 0)
//   shared(a, b) = max(min(a.x2, b.x2) - max(a.x1, b.x1), 0) * the same of y
//   overlap(a, b) = shared / (area(a) + area(b) - shared), a the candidate; NaN is not above anything
//
// Boxes are compared with a block of kept ones together; comparisons don't depend on each other, so all instruction sets keep the same.
//
// The caller has checked: boxes and most are at least 1 and below 2^32, 0 <= overlap <= 1, `score` is no NaN, the scratch has
// non_maximum_suppression_scratch_bytes and the alignment of a uint64, and outputs overlap nothing.  Any number of threads, each with its
// own scratch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct NonMaximumSuppressionF32 {
  const float* boxes;      // [count][4]: x1, y1, x2, y2
  const float* scores;     // [count]
  const int64_t* classes;  // [count]; null: all of one class
  int64_t* indices;        // [most]; -1 behind those that are kept
  int64_t* kept;           // how many are kept
  uint8_t* scratch;
  size_t count, most;
  double overlap, score;
  const std::atomic<bool>* is_cancelled = nullptr;  // looked at before each candidate; then outputs are arbitrary
};

using NonMaximumSuppressionF32Kernel = void(const NonMaximumSuppressionF32&) noexcept;

NonMaximumSuppressionF32Kernel non_maximum_suppression_f32_scalar, non_maximum_suppression_f32_avx2,
    non_maximum_suppression_f32_avx512, non_maximum_suppression_f32_neon;

// Kept boxes are compared by so many.
inline constexpr uint64_t kSuppressionBlock = 16;

// A key of each box; corners, area and class of each kept one.  For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size non_maximum_suppression_scratch_bytes(uint64_t count, uint64_t most) noexcept {
  const uint64_t blocks = (most + kSuppressionBlock - 1) / kSuppressionBlock;
  return Size(count) * sizeof(uint64_t) + Size(blocks) * (kSuppressionBlock * 7 * sizeof(float));
}

}  // namespace alcove::kernels
