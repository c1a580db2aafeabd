// torch's own bisection, step for step, so that NaNs and unsorted boundaries come out alike.
#include "kernels/microkernels/searchsorted/searchsorted.h"

namespace alcove::kernels {

namespace {

template <typename T>
void search(const SearchSorted<T>& a) noexcept {
  for (size_t r = 0; r < a.rows; ++r) {
    const T* sorted = a.sorted + (a.is_shared ? 0 : r * a.boundaries);
    for (size_t i = 0; i < a.count; ++i) {
      const T value = a.values[r * a.count + i];
      size_t start = 0, end = a.boundaries;
      while (start < end) {
        const size_t middle = start + (end - start) / 2;
        const bool is_reached = a.is_right ? sorted[middle] > value : sorted[middle] >= value;
        if (is_reached) {
          end = middle;
        } else {
          start = middle + 1;
        }
      }
      a.output[r * a.count + i] = static_cast<int64_t>(start);
    }
  }
}

}  // namespace

void searchsorted_f32_scalar(const SearchSorted<float>& a) noexcept { search(a); }
void searchsorted_i32_scalar(const SearchSorted<int32_t>& a) noexcept { search(a); }
void searchsorted_i64_scalar(const SearchSorted<int64_t>& a) noexcept { search(a); }

}  // namespace alcove::kernels
