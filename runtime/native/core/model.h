// Holds an open program: verified, immutable, shared by any number of sessions and threads.
#pragma once

#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/memory.h"
#include "core/sha256.h"
#include "core/verify.h"
#include "kernels/dispatch.h"

namespace alcove {

class Model {
 public:
  // Verifies `bytes` and chooses the kernels.  Throws nothing but std::bad_alloc.
  static Result<std::shared_ptr<const Model>> open(Bytes bytes);

  // Its entry points; at least one.
  [[nodiscard]] const Methods& methods() const noexcept { return verified_.methods; }
  [[nodiscard]] const Program& program(size_t method = 0) const noexcept { return methods().all[method].program; }
  // Index of the method of this name; the number of methods if there is none.
  [[nodiscard]] size_t find_method(std::string_view name) const noexcept;
  [[nodiscard]] const std::vector<uint8_t>& certificate() const noexcept { return verified_.certificate; }
  [[nodiscard]] uint64_t memory_ceiling_bytes() const noexcept { return verified_.framing.header.memory_ceiling_bytes; }
  [[nodiscard]] const kernels::KernelTable& kernels() const noexcept { return *kernels_; }
  // Of a constant, as operators read it; read-only.
  [[nodiscard]] const uint8_t* constant(const Tensor& tensor) const noexcept {
    if (tensor.is_half() && !tensor.is_half_in_place()) return widened_.get() + tensor.widened_at;
    return stored(tensor);
  }
  // Whether a run must compare an op's indices with their bound: always, but for a bag of ids that the program hashed itself.
  [[nodiscard]] bool checks_indices(size_t method, size_t op) const noexcept { return checks_indices_[method][op]; }
  // Index of the op that writes each tensor of a method, -1: none.
  [[nodiscard]] const std::vector<int32_t>& writers(size_t method) const noexcept { return writers_[method]; }
  [[nodiscard]] bool is_mapped() const noexcept { return bytes_.is_mapped(); }

  // Digests the weights; at install and on demand, not at every load.
  [[nodiscard]] Status check_weights() const { return verify_weights(bytes_.data(), verified_.framing, methods()); }
  // Of a method: the first of `count` rows of sizes, a number for each symbol, that no run can have; `count` if there is none.  `status`
  // says what refuses it: a symbol's bounds, a place in the plan or the rule of an operator.  For exporters, which ask for
  // every size; a session asks for its own.  Throws nothing but std::bad_alloc.
  [[nodiscard]] size_t first_refused(size_t method, const uint32_t* sizes, size_t count, Status& status) const;
  // Of the whole file.
  [[nodiscard]] Digest digest() const { return sha256(bytes_.data(), bytes_.size()); }

 private:
  Model(Bytes bytes, Verified verified, const kernels::KernelTable& kernels);
  // Of a constant, in the file.
  [[nodiscard]] const uint8_t* stored(const Tensor& tensor) const noexcept {
    return bytes_.data() + verified_.framing.weights.offset + tensor.offset;
  }
  // Makes float32 of the constants of 16 bits.
  Status widen();

  Bytes bytes_;
  Memory widened_;
  Verified verified_;
  const kernels::KernelTable* kernels_;
  std::vector<std::vector<int32_t>> writers_;      // of each method
  std::vector<std::vector<bool>> checks_indices_;  // of each method
};

// The kernels of this process: the best that the machine has, or what ALCOVE_ISA names.  Read at the first call.
[[nodiscard]] Result<const kernels::KernelTable*> process_kernels();

}  // namespace alcove
