// A program in memory, after the verifier: what later code may rely on stands in verify.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/limits.h"

namespace alcove {

// The numbers are those of the file format and of runtime/format/spec.py.
enum class DType : uint8_t { f32 = 1, i8 = 2, i32 = 3, i64 = 4, u8 = 5, boolean = 6, text = 7 };
enum class Storage : uint8_t { constant = 1, arena = 2 };
enum class Layout : uint8_t { row_major = 1, panel16 = 2 };

enum class OpCode : uint16_t {
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) name = code,
#include "kernels/manifest.inc"
};

// May output 0 have the bytes of input 0?  in_place: if nothing uses them later; alias: while both are used.
enum class Sharing : uint8_t { none, in_place, alias };

// One line of the manifest.
struct OpInfo {
  OpCode code;
  const char* name;
  uint8_t min_inputs, max_inputs, outputs;
  const char* attributes;  // "name:type ...", in order
  uint8_t attribute_count;
  Sharing sharing;
};

[[nodiscard]] const std::vector<OpInfo>& manifest();
// Null if there is no such op.
[[nodiscard]] const OpInfo* op_info(uint16_t code) noexcept;

[[nodiscard]] const char* sharing_name(Sharing sharing) noexcept;
[[nodiscard]] const char* dtype_name(DType dtype) noexcept;
// Bytes of one element; 0 for text, which lies outside the arena.
[[nodiscard]] uint32_t dtype_bytes(DType dtype) noexcept;

struct Tensor {
  DType dtype;
  Storage storage;
  Layout layout;
  bool is_ragged;  // dims[0] is an upper bound
  uint8_t rank;
  uint32_t dims[kMaxRank];
  uint64_t offset;  // in the WEIGHTS section or in the arena
  uint64_t size_bytes;
  std::string_view name;

  [[nodiscard]] uint64_t element_count() const noexcept {
    uint64_t count = 1;
    for (uint8_t d = 0; d < rank; ++d) count *= dims[d];
    return count;
  }
};

struct Op {
  OpCode code;
  uint8_t input_count, output_count, attribute_count;
  uint32_t inputs[kMaxOpInputs];
  uint32_t outputs[kMaxOpOutputs];
  uint64_t attributes[kMaxOpAttributes];  // bits; i64 as two's complement
  std::string_view source;
};

struct Port {
  uint32_t tensor;
  std::string_view name;
  uint32_t first_label, label_count;
};

struct Program {
  std::vector<uint8_t> bytes;  // private copy of the PROGRAM section; the names below point into it
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Port> inputs, outputs;
  std::vector<std::string_view> labels;
  uint64_t arena_bytes = 0;
  uint64_t weights_bytes = 0;

  Program() = default;
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;
  Program(const Program&) = delete;  // the names would point into the original
  Program& operator=(const Program&) = delete;
};

// For each tensor that a session keeps track of: where it is and how much of it is used.
struct TensorState {
  uint8_t* data;    // never written for constants
  uint64_t extent;  // ragged: rows in use; text: bytes; otherwise dims[0]
};
static_assert(sizeof(void*) > 8 || sizeof(TensorState) <= 16, "the memory ceiling counts 16 bytes for each tensor");
inline constexpr uint64_t kStateBytes = 16;

}  // namespace alcove
