// torch.searchsorted: for each value the number of the first boundary >= it (left) or > it (right), by bisection of its
// row's ascending boundaries; a NaN counts as greater than all.  Boundaries that aren't sorted give some number in
// [0, boundaries].
//
// The caller has checked: sizes are at least 1, output overlaps nothing.  Everything is aligned.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

template <typename T>
struct SearchSorted {
  const T* sorted;  // [rows][boundaries], or [boundaries] where all rows share them
  const T* values;  // [rows][count]
  int64_t* output;  // [rows][count]
  size_t rows;
  size_t boundaries;
  size_t count;
  bool is_shared;
  bool is_right;
};

using SearchSortedF32Kernel = void(const SearchSorted<float>&) noexcept;
using SearchSortedI32Kernel = void(const SearchSorted<int32_t>&) noexcept;
using SearchSortedI64Kernel = void(const SearchSorted<int64_t>&) noexcept;

SearchSortedF32Kernel searchsorted_f32_scalar;
SearchSortedI32Kernel searchsorted_i32_scalar;
SearchSortedI64Kernel searchsorted_i64_scalar;

}  // namespace alcove::kernels
