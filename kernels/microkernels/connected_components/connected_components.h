// The components of a mask: pixels that are not 0 and touch each other, by their sides or also by their corners.
//
// Components are numbered from 1 in the order of their first pixels, row by row, left to right; pixels of 0 have the label 0.  With
// each pixel comes the number of pixels of its component, 0 for those of none.  All is integers, so one kernel serves all instruction
// sets.
//
// The caller has checked: sizes are at least 1, height * width < 2^31, the scratch has connected_components_scratch_bytes and the
// alignment of a uint32, and outputs overlap nothing.  Two passes over rows, whose runs of pixels are united as they touch.  Any number
// of threads, each with its own scratch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

struct ConnectedComponents {
  const uint8_t* mask;  // [height][width]
  int32_t* labels;      // [height][width]
  int32_t* areas;       // [height][width]
  uint8_t* scratch;
  size_t height, width;
  bool by_corners;  // 8 neighbors instead of 4
};

using ConnectedComponentsKernel = void(const ConnectedComponents&) noexcept;

ConnectedComponentsKernel connected_components_scalar;

// Most runs of a row, or of rows.
template <typename Size>
constexpr Size connected_components_runs(uint64_t height, uint64_t width) noexcept {
  return Size(height) * ((width + 1) / 2);
}

// A parent and an area for each run; where the runs of two rows begin and end.
template <typename Size>
constexpr Size connected_components_scratch_bytes(uint64_t height, uint64_t width) noexcept {
  return (connected_components_runs<Size>(height, width) * 2 + connected_components_runs<Size>(1, width) * 4) *
         sizeof(uint32_t);
}

}  // namespace alcove::kernels
