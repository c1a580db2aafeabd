// Defines an operator of the runtime: a rule that the verifier asks, and a run that calls its kernel.
//
// For each line of kernels/manifest.inc one of the files beside this one defines
//
//   Status check_<op>(const Subject&, Checked& cost);   types, layouts, shapes and attributes; the elementary operations
//   Status run_<op>(const Call&) noexcept;               may rely on what the rule has established, and on nothing else
//
// A rule computes every output shape anew and proves that every access lies within its tensor.  The bytes of a constant
// prove nothing: indices are compared with their bound in the run, wherever they come from.
#pragma once

#include <cinttypes>
#include <initializer_list>

#include "core/cancel.h"
#include "core/checked.h"
#include "core/ops/attributes.h"
#include "core/pool.h"
#include "core/program.h"
#include "core/status.h"
#include "kernels/dispatch.h"

namespace alcove::ops {

using kernels::Activation;

// Whether the operator reads a constant of 16 bits as it is in the file.
[[nodiscard]] bool reads_halves(OpCode code, size_t input) noexcept;

// One op with what its rule needs to see.
struct Subject {
  const Program& program;
  const Op& op;
  const std::vector<int32_t>& writers;  // index of the op that writes each tensor, -1: none

  [[nodiscard]] const Tensor& input(uint8_t i) const { return program.tensors[op.inputs[i]]; }
  [[nodiscard]] const Tensor& output(uint8_t i) const { return program.tensors[op.outputs[i]]; }
  [[nodiscard]] int64_t integer(Integer attribute) const { return attribute.read(op); }
  [[nodiscard]] double real(Real attribute) const { return attribute.read(op); }
  [[nodiscard]] uint64_t bits(Bits attribute) const { return attribute.read(op); }
  [[nodiscard]] const char* name() const { return op_info(static_cast<uint16_t>(op.code))->name(); }
};

// One op in a session: where its tensors are.  All shapes and attributes are those of this run.
struct Call {
  const Program& program;
  const Op& op;
  TensorState* states;
  const kernels::KernelTable& kernels;
  bool checks_indices;  // false: the rule has proved that they are in range
  Pool* pool;           // null: one thread

  [[nodiscard]] const Tensor& input(uint8_t i) const noexcept { return program.tensors[op.inputs[i]]; }
  [[nodiscard]] const Tensor& output(uint8_t i) const noexcept { return program.tensors[op.outputs[i]]; }
  template <typename T>
  [[nodiscard]] const T* in(uint8_t i) const noexcept {
    return reinterpret_cast<const T*>(states[op.inputs[i]].data);
  }
  template <typename T>
  [[nodiscard]] T* out(uint8_t i) const noexcept {
    return reinterpret_cast<T*>(states[op.outputs[i]].data);
  }
  // Rows in use of a ragged input; bytes of a text.
  [[nodiscard]] uint64_t extent(uint8_t i) const noexcept { return states[op.inputs[i]].extent; }
  void set_extent(uint8_t i, uint64_t rows) const noexcept { states[op.outputs[i]].extent = rows; }
  [[nodiscard]] int64_t integer(Integer attribute) const noexcept { return attribute.read(op); }
  [[nodiscard]] double real(Real attribute) const noexcept { return attribute.read(op); }
  [[nodiscard]] uint64_t bits(Bits attribute) const noexcept { return attribute.read(op); }
  [[nodiscard]] kernels::Activated activation(ActivationAttributes attributes) const noexcept {
    const auto function = static_cast<Activation>(integer(attributes.function));
    if (function != Activation::clamp) return {function};
    return {function, static_cast<float>(real(attributes.low)), static_cast<float>(real(attributes.high))};
  }

  // In how many parts to compute `units`; `work` is what all of them take, in multiply-adds of a dense product.
  [[nodiscard]] size_t parts(size_t units, uint64_t work) const noexcept {
    return pool == nullptr ? 1 : pool->parts(units, work);
  }
  // Calls compute(first, end, part) for each part: units [first, end), in a thread of its own; at once if it is one part.  What takes
  // long is computed in pieces, and no further one begins once the run is cancelled.  Units must be outputs, or groups of them, that
  // don't depend on each other: sums are never divided, so that bits don't change.
  template <typename Compute>
  void split(size_t units, uint64_t work, const Compute& compute) const noexcept {
    struct Job {
      const Compute& compute;
      size_t units, parts, piece;
      const std::atomic<bool>* flag;

      void run(size_t part) const noexcept {
        const size_t end = units * (part + 1) / parts;
        for (size_t first = units * part / parts; first < end; first += piece) {
          if (is_run_cancelled()) return;
          compute(first, end - first < piece ? end : first + piece, part);
        }
      }
    };
    const size_t pieces = work <= kPollWork ? 1 : static_cast<size_t>(work / kPollWork) + 1;
    const Job job = {compute, units, parts(units, work), pieces < units ? units / pieces : 1, watched_flag()};
    if (job.parts == 1) return job.run(0);
    pool->run(
        job.parts,
        [](const void* pointer, size_t part) noexcept {
          const Job& shared = *static_cast<const Job*>(pointer);
          const CancelScope scope(shared.flag);
          shared.run(part);
        },
        &job);
  }
  // What the op's output 1 is to part 0, to each part.
  template <typename T>
  [[nodiscard]] T* scratch(size_t part) const noexcept {
    return part == 0 ? out<T>(1) : reinterpret_cast<T*>(pool->scratch(part));
  }

  // The typed error of an index out of [low, bound): element `position` of input i.
  [[nodiscard]] Status bad_index(uint8_t i, uint64_t position, int64_t value, int64_t low,
                                 int64_t bound) const noexcept;
  // Says which of the caller's inputs input i is, if it is one.
  [[nodiscard]] Status name_input(uint8_t i, Status status) const noexcept;
};

using CheckRule = Status(const Subject&, Checked&);
using RunRule = Status(const Call&) noexcept;

#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) \
  CheckRule check_##name;                                                               \
  RunRule run_##name;
#include "kernels/manifest.inc"

// Precondition: the op's code is in the manifest.  Null where the build was made without the operator.
[[nodiscard]] CheckRule* check_rule(OpCode code) noexcept;
[[nodiscard]] RunRule* run_rule(OpCode code) noexcept;
// Undoes a run of `write_rows`.  Precondition: nothing has written its tensors since, and what ran after it is undone.
void restore_rows(const Call& c) noexcept;
// Whether it looks at the flag of cancellation while it runs: it is shared out, or made of dense products.
[[nodiscard]] bool polls(OpCode code) noexcept;
// Whether its operations are multiply-adds of dense products.
[[nodiscard]] bool is_gemm(OpCode code) noexcept;
// Whether its output 1 is scratch of which each part of a split takes as much.
[[nodiscard]] bool splits_scratch(OpCode code) noexcept;

// -- what rules are made of -------------------------------------------------------------------------------------------

inline constexpr int kAnyRank = -1;

constexpr uint32_t make_set(std::initializer_list<DType> dtypes) {
  uint32_t set = 0;
  for (const DType dtype : dtypes) set |= 1u << static_cast<int>(dtype);
  return set;
}
inline constexpr uint32_t kFloat = make_set({DType::f32});
inline constexpr uint32_t kIndices = make_set({DType::i32, DType::i64});
inline constexpr uint32_t kNumbers = make_set({DType::f32, DType::i8, DType::i32, DType::i64, DType::u8});
inline constexpr uint32_t kAnyType = kNumbers | make_set({DType::boolean});

struct Expected {
  uint32_t dtypes;
  int rank = kAnyRank;
  bool is_constant = false;  // true: must lie in WEIGHTS; false: anywhere
  Layout layout = Layout::row_major;
  bool may_be_ragged = false;
};

// Of tensor `index` of the program; `role` is what the op calls it.
[[nodiscard]] Status check_type(const Subject& s, uint32_t index, const char* role, const Expected& expected);
[[nodiscard]] Status check_dimension(const Subject& s, uint32_t index, const char* role, uint32_t d, uint64_t expected);
// Rank and every dimension.
[[nodiscard]] Status check_shape(const Subject& s, uint32_t index, const char* role, const uint64_t* dims, size_t rank);
// Output 0 has the type, rank and dimensions of input 0.
[[nodiscard]] Status check_like_input(const Subject& s);
// The attribute is in [low, high].
[[nodiscard]] Status check_integer(const Subject& s, Integer attribute, const char* role, int64_t low, int64_t high);
[[nodiscard]] Status check_finite(const Subject& s, Real attribute, const char* role);
// The function is at most `most`; the bounds of a clamp may be infinite.
[[nodiscard]] Status check_activation(const Subject& s, ActivationAttributes attributes, Activation most);
// Output i is uint8 [bytes] or more.
[[nodiscard]] Status check_scratch(const Subject& s, uint8_t i, const Checked& bytes);
// Counts of the op's tensors; for rules with optional inputs.
[[nodiscard]] Status check_input_count(const Subject& s, uint64_t expected);

// Number of elements, overflow and all.
[[nodiscard]] Checked elements(const Tensor& tensor);
// What a kernel takes for each pixel of an image besides what it does for its channels, in operations.
[[nodiscard]] Checked pixel_cost(const Tensor& image);

}  // namespace alcove::ops
