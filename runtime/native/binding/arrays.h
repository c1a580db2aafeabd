// Converts Python's arrays to inputs without a copy where they fit, and outputs to arrays of Python's.
#pragma once

#include <cstdint>
#include <memory>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "core/session.h"

namespace alcove::binding {

// What a caller gave for an input; keeps its bytes in place while it lives.
class GivenArray {
 public:
  GivenArray() = default;
  ~GivenArray() {
    if (is_buffer_) PyBuffer_Release(&buffer_);
  }
  GivenArray(const GivenArray&) = delete;
  GivenArray& operator=(const GivenArray&) = delete;

  // Sets it to an array for an input: numpy's, or of anything else that says `__dlpack__` or has a buffer.  Afterwards its type
  // is the tensor's, and it lies row-major: in a copy, if it has to; its shape is still to be compared.
  Status take(const Program& program, size_t port, nanobind::handle object);

  [[nodiscard]] const uint64_t* dims() const { return dims_; }
  [[nodiscard]] size_t rank() const { return rank_; }
  [[nodiscard]] const void* data() const { return data_; }

 private:
  bool has_buffer(const Tensor& tensor, nanobind::handle object);
  Status take_any(const Tensor& tensor, nanobind::handle object);
  Status arrange(const Program& program, const Tensor& tensor);

  bool is_buffer_ = false;
  Py_buffer buffer_;
  nanobind::ndarray<nanobind::ro, nanobind::device::cpu> array_;
  std::unique_ptr<uint8_t[]> copy_;
  const void* data_ = nullptr;
  int64_t strides_[kMaxRank];  // in bytes
  size_t rank_ = 0;
  uint64_t dims_[kMaxRank];
};

// A new numpy array with the bytes of an output; only the first `extent` of its rows are taken.
nanobind::object output_array(const Tensor& tensor, uint64_t extent, const uint8_t* bytes);

}  // namespace alcove::binding
