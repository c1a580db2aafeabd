// Holds an open program: verified, immutable, shared by any number of sessions and threads.
#pragma once

#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/sha256.h"
#include "core/verify.h"
#include "kernels/dispatch.h"

namespace alcove {

class Model {
 public:
  // Verifies `bytes` and chooses the kernels.  Throws nothing but std::bad_alloc.
  static Result<std::shared_ptr<const Model>> open(Bytes bytes);

  [[nodiscard]] const Program& program() const noexcept { return verified_.program; }
  [[nodiscard]] const std::vector<uint8_t>& certificate() const noexcept { return verified_.certificate; }
  [[nodiscard]] uint64_t memory_ceiling_bytes() const noexcept { return verified_.framing.header.memory_ceiling_bytes; }
  [[nodiscard]] const kernels::KernelTable& kernels() const noexcept { return *kernels_; }
  // Of a constant; read-only.
  [[nodiscard]] const uint8_t* constant(const Tensor& tensor) const noexcept {
    return bytes_.data() + verified_.framing.weights.offset + tensor.offset;
  }
  // Whether a run must compare an op's indices with their bound: always, but for a bag of ids that the program hashed itself.
  [[nodiscard]] bool checks_indices(size_t op) const noexcept { return checks_indices_[op]; }
  // Index of the op that writes each tensor, -1: none.
  [[nodiscard]] const std::vector<int32_t>& writers() const noexcept { return writers_; }
  [[nodiscard]] bool is_mapped() const noexcept { return bytes_.is_mapped(); }

  // Digests the weights; at install and on demand, not at every load.
  [[nodiscard]] Status check_weights() const { return verify_weights(bytes_.data(), verified_.framing, program()); }
  // The first of `count` rows of sizes, a number for each symbol, that no run can have; `count` if there is none.  `status`
  // says what refuses it: a symbol's bounds, a place in the plan or the rule of an operator.  For exporters, which ask for
  // every size; a session asks for its own.  Throws nothing but std::bad_alloc.
  [[nodiscard]] size_t first_refused(const uint32_t* sizes, size_t count, Status& status) const;
  // Of the whole file.
  [[nodiscard]] Digest digest() const { return sha256(bytes_.data(), bytes_.size()); }

 private:
  Model(Bytes bytes, Verified verified, const kernels::KernelTable& kernels);

  Bytes bytes_;
  Verified verified_;
  const kernels::KernelTable* kernels_;
  std::vector<int32_t> writers_;
  std::vector<bool> checks_indices_;
};

// The kernels of this process: the best that the machine has, or what ALCOVE_ISA names.  Read at the first call.
[[nodiscard]] Result<const kernels::KernelTable*> process_kernels();

}  // namespace alcove
