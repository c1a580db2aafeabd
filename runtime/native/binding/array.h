// Keeps the elements of an array that Python is given.
#pragma once

#include <cstddef>

#include <nanobind/nanobind.h>

namespace alcove::binding {

// Its memory is the owner's.
template <typename T>
struct Array {
  explicit Array(size_t count)
      : data(new T[count + 1]), owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); }) {}

  T* data;
  nanobind::capsule owner;
};

}  // namespace alcove::binding
