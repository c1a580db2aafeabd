// A program in memory, after the verifier: what later code may rely on stands in verify.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/limits.h"

namespace alcove {

// The numbers are those of the file format and of runtime/format/spec.py.
enum class DType : uint8_t { f32 = 1, i8 = 2, i32 = 3, i64 = 4, u8 = 5, boolean = 6, text = 7, f16 = 8, bf16 = 9 };
enum class Storage : uint8_t { constant = 1, arena = 2, state = 3 };
enum class Layout : uint8_t { row_major = 1, panel16 = 2 };

enum class OpCode : uint16_t {
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) name = code,
#include "kernels/manifest.inc"
};

// May output 0 have the bytes of input 0?  in_place: if nothing uses them later; alias: while both are used.
enum class Sharing : uint8_t { none, in_place, alias };

// One line of the manifest.  Its texts are found by number: the linker would have to make an address of each at every load.
struct OpInfo {
  [[nodiscard]] const char* name() const noexcept;
  [[nodiscard]] const char* attributes() const noexcept;  // "name:type ...", in order

  uint16_t name_at, attributes_at;
  OpCode code;
  uint8_t min_inputs, max_inputs, outputs;
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
  uint8_t dynamic_dims;  // bit d: dims[d] is the index of an expression, and after bind() its value
  DType stored;          // of a constant in the file: f16 or bf16 where its operators see f32, otherwise dtype
  uint32_t dims[kMaxRank];
  uint64_t offset;      // in the WEIGHTS section, in the arena or among the states
  uint64_t size_bytes;  // in the type that rules see
  uint64_t
      widened_at;  // of a constant of 16 bits that is widened when the file is opened, among these: its offset; else kInPlace
  std::string_view name;

  static constexpr uint64_t kInPlace = ~uint64_t{0};

  // Whether it has 16 bits in the file, and is float32 to the rules of operators.
  [[nodiscard]] bool is_half() const noexcept { return stored != dtype; }
  // In the file.
  [[nodiscard]] uint64_t stored_bytes() const noexcept { return is_half() ? size_bytes / 2 : size_bytes; }
  // Of a constant, whether operators read its 16 bits themselves.
  [[nodiscard]] bool is_half_in_place() const noexcept { return is_half() && widened_at == kInPlace; }
  [[nodiscard]] uint64_t element_count() const noexcept {
    uint64_t count = 1;
    for (uint8_t d = 0; d < rank; ++d) count *= dims[d];
    return count;
  }
};

struct Op {
  OpCode code;
  uint8_t input_count, output_count, attribute_count;
  uint32_t attribute_dynamic;  // bit a: attributes[a] is the index of an expression, and after bind() its value
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

// What a run leaves for the next one in the same session.
struct State {
  uint32_t tensor;   // storage state; read by ops
  uint32_t initial;  // the constant that it begins as
  uint32_t update;   // the arena tensor that it becomes after a run
  std::string_view name;
};

// A size that is known when the inputs are.
struct Symbol {
  uint32_t min, max;
  uint32_t input;  // whose dimension `dim` it is
  uint32_t dim;
  std::string_view name;
};

// The numbers are those of the file format and of runtime/format/spec.py.
enum class ExpressionKind : uint8_t { constant = 1, symbol, add, subtract, multiply, floor_divide, modulo, min, max };

// A size made of others.  `a` is the value of a constant, or the index of a symbol; both are indices of earlier expressions
// otherwise.
struct Expression {
  ExpressionKind kind;
  int64_t a, b;
};

// Where a tensor lies, and how large it may be.
struct Place {
  uint64_t offset;
  uint64_t size_bytes;
};

// A memory plan for all sizes up to its bounds.
struct Bucket {
  uint64_t arena_bytes;
  uint32_t bounds[kMaxSymbols];  // greatest value of each symbol
  std::vector<Place> places;     // of each tensor; 0 for what is not in the arena
};

struct Program {
  std::vector<uint8_t> bytes;  // private copy of the PROGRAM section; the names below point into it
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Port> inputs, outputs;
  std::vector<std::string_view> labels;
  std::vector<State> states;
  std::vector<Symbol> symbols;  // none: all sizes are known
  std::vector<Expression> expressions;
  std::vector<Bucket> buckets;  // by rising arena; one without bounds if there are no symbols
  uint64_t arena_bytes = 0;     // of the largest bucket
  uint64_t run_cost = 0;        // operations of one run, at the sizes of the bucket that takes most

  Program() = default;
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;
  Program(const Program&) = delete;  // the names would point into the original
  Program& operator=(const Program&) = delete;
};

// An entry point of a file: a program of its own over weights and states that all share.
struct Method {
  std::string_view name;
  Program program;
  std::vector<uint32_t> states;  // for each of the program's, in order, its index among those that a session keeps
};

// What a session keeps from run to run, whichever method ran.
struct KeptState {
  std::string_view name;
  uint32_t method, tensor;  // where it stands first
  uint64_t offset;          // among the states of a session
  uint64_t size_bytes;
};

// What a file holds.
struct Methods {
  std::vector<uint8_t> bytes;  // private copy of the METHODS section; names point into it
  std::vector<Method> all;     // at least one; the first has the PROGRAM section
  std::vector<KeptState> states;
  uint64_t states_bytes = 0;
  uint64_t widened_bytes = 0;  // of constants that are widened when the file is opened
};

// For each tensor that a session keeps track of: where it is and how much of it is used.
struct TensorState {
  uint8_t* data;    // never written for constants
  uint64_t extent;  // ragged: rows in use; text: bytes; otherwise dims[0]
};
static_assert(sizeof(void*) > 8 || sizeof(TensorState) <= 16, "the memory ceiling counts 16 bytes for each tensor");
inline constexpr uint64_t kStateBytes = 16;
// What a session of a program with symbols keeps for each tensor, op, expression and input.
static_assert(sizeof(Tensor) <= 80 && sizeof(Op) <= 288 && sizeof(Port) <= 32, "the memory ceiling counts these");
inline constexpr uint64_t kBoundTensorBytes = 80;
inline constexpr uint64_t kBoundOpBytes = 288;
inline constexpr uint64_t kBoundExpressionBytes = 8;
inline constexpr uint64_t kBoundInputBytes = 32;

}  // namespace alcove
