// The most probable labelings of frames of classes, one of them blank: prefix beam search (Graves 2012; Hannun et al. 2014).
//
// A labeling's probability is the sum over all alignments that become it when repeated classes are merged and blanks left out.  Of
// each frame the `width` most probable prefixes are kept, and for each of them two sums: of alignments that end in a blank, b, and of
// those that do not, r; before the first frame there is the empty prefix, b = 1, r = 0.  All numbers are double, sums in this order:
//
//   share[c] = exp_f64(x[c] - m), m the greatest x; 0 for a NaN and for -infinity; +infinity is the greatest float32
//   a prefix that stays:   b' = (b + r) * share[blank];   r' = r * share[last], and + (the sum it is extended from) * share[last]
//                          if the prefix without its last class is kept too
//   a prefix that grows by a class c that is no kept prefix's:  r' = (the sum it is extended from) * share[c], b' = 0
//   the sum that a prefix is extended from by c: b if c is its last class, else b + r
//
// A product below 2^-900 is 0, and a prefix of 0 is none.  The most probable are kept: by b' + r' descending, then by the place of
// the prefix that they stay or grow from, then what stays, then by class.  Then all are divided by the power of two of the greatest
// b + r, and the logarithms of what was divided by, and m, are summed up.  A frame without a number above -infinity changes no prefix
// and makes every score -infinity.
//
// The score of a path is log_f64(b + r) + the sum of m + ln 2 * the sum of exponents, rounded to float32.  Double arithmetic without
// fused operations has the same bits everywhere, so one kernel serves all instruction sets.
//
// The caller has checked: sizes are at least 1, 1 <= paths <= width <= kCtcMostWidth, blank < classes, the scratch has
// ctc_scratch_bytes and the alignment of a double, and outputs overlap nothing.  Any number of threads, each with its own scratch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct CtcBeamF32 {
  const float* log_probs;  // [frames][classes]
  int64_t* ids;            // [paths][frames]; blank behind the labeling, and where there is no path
  int64_t* counts;         // [paths]; 0 where there is no path
  float* scores;           // [paths], descending; -infinity where there is no path
  uint8_t* scratch;
  size_t frames, classes, width, paths, blank;
  const std::atomic<bool>* is_cancelled = nullptr;  // looked at before each frame; then outputs are arbitrary
};

using CtcBeamF32Kernel = void(const CtcBeamF32&) noexcept;

CtcBeamF32Kernel ctc_beam_f32_scalar;

inline constexpr size_t kCtcMostWidth = 1024;

namespace ctc {

struct Beam {
  double blank, rest;
  int32_t node;
};
struct Candidate {
  double probability;
  int32_t source, letter;  // letter -1: the prefix stays
};
// A prefix; they are a tree, whose root is the empty one.
struct Node {
  int32_t parent, letter, child, sibling, place;  // place among the beams, -1: not kept
};

}  // namespace ctc

// For sizes below 2^31, or of a type that notices overflow.
template <typename Size>
constexpr Size ctc_scratch_bytes(Size frames, Size classes, Size width) noexcept {
  const Size nodes = width * frames + Size(1);
  return width * (2 * sizeof(ctc::Beam) + 2 * sizeof(double) + sizeof(ctc::Candidate)) +
         classes * (sizeof(double) + 1) + nodes * sizeof(ctc::Node);
}

}  // namespace alcove::kernels
