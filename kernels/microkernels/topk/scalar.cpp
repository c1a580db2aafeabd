// The heap lies in the outputs themselves, its worst element first; taking it apart from there leaves them sorted.
#include <type_traits>

#include "kernels/microkernels/sort/key.h"
#include "kernels/microkernels/topk/topk.h"

namespace alcove::kernels {

namespace {

template <typename T>
struct Heap {
  T* values;
  int64_t* indices;
  bool is_largest;

  struct Item {
    T value;
    int64_t index;
  };
  [[nodiscard]] Item at(size_t place) const noexcept { return {values[place], indices[place]}; }
  void put(size_t place, Item item) const noexcept {
    values[place] = item.value;
    indices[place] = item.index;
  }

  // A strict and total order: no two indices are equal.
  [[nodiscard]] bool precedes(Item a, Item b) const noexcept {
    const auto key_a = order_key(a.value);
    const auto key_b = order_key(b.value);
    if (key_a != key_b) return is_largest ? key_a > key_b : key_a < key_b;
    return a.index < b.index;
  }

  // Puts `item` at the root of a heap of `count` places that misses it.
  void sink(size_t root, size_t count, Item item) const noexcept {
    for (;;) {
      size_t child = 2 * root + 1;
      if (child >= count) break;
      if (child + 1 < count && precedes(at(child), at(child + 1))) ++child;
      if (!precedes(item, at(child))) break;
      put(root, at(child));
      root = child;
    }
    put(root, item);
  }
};

template <typename T>
T canonicalize(T value) noexcept {
  if constexpr (std::is_same_v<T, float>) return canonical(value);
  return value;
}

template <typename T>
void topk_row(const T* x, size_t n, size_t k, const Heap<T>& heap) noexcept {
  for (size_t i = 0; i < k; ++i) heap.put(i, {canonicalize(x[i]), static_cast<int64_t>(i)});
  for (size_t i = k / 2; i-- > 0;) heap.sink(i, k, heap.at(i));
  for (size_t i = k; i < n; ++i) {
    const typename Heap<T>::Item item = {canonicalize(x[i]), static_cast<int64_t>(i)};
    if (heap.precedes(item, heap.at(0))) heap.sink(0, k, item);
  }
  for (size_t last = k; last-- > 1;) {
    const auto moved = heap.at(last);
    heap.put(last, heap.at(0));
    heap.sink(0, last, moved);
  }
}

template <typename T>
void topk(const Topk& a) noexcept {
  for (size_t row = 0; row < a.rows; ++row) {
    const Heap<T> heap = {static_cast<T*>(a.values) + row * a.k, a.indices + row * a.k, a.is_largest};
    topk_row(static_cast<const T*>(a.input) + row * a.n, a.n, a.k, heap);
  }
}

}  // namespace

void topk_f32_scalar(const Topk& a) noexcept { topk<float>(a); }
void topk_i32_scalar(const Topk& a) noexcept { topk<int32_t>(a); }
void topk_i64_scalar(const Topk& a) noexcept { topk<int64_t>(a); }

}  // namespace alcove::kernels
