// Bottom-up merges between two halves of the scratch, on keys instead of values: then nothing asks about NaN or -0.
#include <type_traits>

#include "kernels/microkernels/sort/key.h"
#include "kernels/microkernels/sort/sort.h"

namespace alcove::kernels {

namespace {

constexpr size_t kRun = 16;  // sorted by insertion before the first merge

// A key above its index in one integer; no two are equal.
struct Packed {
  uint64_t bits;
  static Packed of(int32_t key, size_t index) noexcept {
    return {static_cast<uint64_t>(static_cast<uint32_t>(key) ^ 0x80000000u) << 32 | index};
  }
  [[nodiscard]] size_t index() const noexcept { return bits & UINT32_MAX; }
  [[nodiscard]] bool precedes(const Packed& other) const noexcept { return bits < other.bits; }
};

struct Wide {
  int64_t key;
  uint64_t place;
  static Wide of(int64_t key, size_t index) noexcept { return {key, index}; }
  [[nodiscard]] size_t index() const noexcept { return place; }
  [[nodiscard]] bool precedes(const Wide& other) const noexcept {
    return key < other.key || (key == other.key && place < other.place);
  }
};

template <typename Item>
void insertion_sort(Item* items, size_t n) noexcept {
  for (size_t i = 1; i < n; ++i) {
    const Item item = items[i];
    size_t place = i;
    for (; place > 0 && item.precedes(items[place - 1]); --place) items[place] = items[place - 1];
    items[place] = item;
  }
}

// from[0..middle) and from[middle..n) into `to`.
template <typename Item>
void merge(const Item* from, size_t middle, size_t n, Item* to) noexcept {
  size_t left = 0;
  size_t right = middle;
  for (size_t i = 0; i < n; ++i) {
    const bool takes_right = right < n && (left == middle || from[right].precedes(from[left]));
    to[i] = from[takes_right ? right : left];
    right += takes_right;
    left += !takes_right;
  }
}

// Which of the two halves ends up sorted.
template <typename Item>
const Item* merge_sort(Item* items, Item* spare, size_t n) noexcept {
  for (size_t i = 0; i < n; i += kRun) insertion_sort(items + i, n - i < kRun ? n - i : kRun);
  for (size_t width = kRun; width < n; width *= 2) {
    for (size_t i = 0; i < n; i += 2 * width) {
      const size_t count = n - i < 2 * width ? n - i : 2 * width;
      merge(items + i, width < count ? width : count, count, spare + i);
    }
    Item* const sorted = spare;
    spare = items;
    items = sorted;
  }
  return items;
}

template <typename T>
void sort(const Sort& a) noexcept {
  using Item = std::conditional_t<sizeof(T) == 8, Wide, Packed>;
  static_assert(2 * sizeof(Item) == sort_bytes_per_element(sizeof(T)));
  auto* items = static_cast<Item*>(a.scratch);
  for (size_t row = 0; row < a.rows; ++row) {
    const T* x = static_cast<const T*>(a.input) + row * a.n;
    for (size_t i = 0; i < a.n; ++i) {
      const auto key = order_key(x[i]);
      items[i] = Item::of(a.is_descending ? ~key : key, i);
    }
    const Item* sorted = merge_sort(items, items + a.n, a.n);
    T* values = static_cast<T*>(a.values) + row * a.n;
    int64_t* indices = a.indices + row * a.n;
    for (size_t i = 0; i < a.n; ++i) {
      const size_t index = sorted[i].index();
      indices[i] = static_cast<int64_t>(index);
      if constexpr (std::is_same_v<T, float>) {
        values[i] = canonical(x[index]);
      } else {
        values[i] = x[index];
      }
    }
  }
}

}  // namespace

void sort_f32_scalar(const Sort& a) noexcept { sort<float>(a); }
void sort_i32_scalar(const Sort& a) noexcept { sort<int32_t>(a); }
void sort_i64_scalar(const Sort& a) noexcept { sort<int64_t>(a); }
void sort_u8_scalar(const Sort& a) noexcept { sort<uint8_t>(a); }

}  // namespace alcove::kernels
