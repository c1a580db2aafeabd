// One element at a time: functions of one and of two operands, special functions, choices, casts and bits.
#include "core/ops/movement.h"

namespace alcove::ops {

namespace {

constexpr Integer kFunction{{OpCode::unary, OpCode::binary}, "function"};
constexpr Real kA{OpCode::unary, "a"}, kB{OpCode::unary, "b"}, kC{OpCode::unary, "c"};
constexpr Integer kSpecialFunction{OpCode::special, "function"};
// What an element may take, for the op budget: the slowest function's, about.
constexpr uint64_t kCostPerElement = 16;
// What an element takes for sharing out, in multiply-adds; elements go to threads in so many at a time.
constexpr uint64_t kWorkPerElement = 8;
constexpr size_t kChunk = 1024;
constexpr uint64_t kSpecialCost = 1024;  // sums of 64 terms with two quotients each
constexpr uint64_t kZetaCost = 1 << 13;  // one power for each whole number between the offset's bound and 9

// The words of functions.inc.
constexpr uint32_t kIntegers = kNumbers & ~kFloat;
constexpr uint32_t kTypes_f32 = kFloat, kTypes_angle = kFloat, kTypes_number = kNumbers, kTypes_integer = kIntegers,
                   kTypes_bool = make_set({DType::boolean}), kTypes_logic = kIntegers | make_set({DType::boolean}),
                   kTypes_any = kAnyType;
enum class ResultType : uint8_t { same, bool_ };
constexpr ResultType kResult_same = ResultType::same, kResult_bool = ResultType::bool_;

struct FunctionInfo {
  uint32_t dtypes;
  ResultType result;
};

// By number, from 0; there is no function 0.
constexpr FunctionInfo kUnary[] = {
    {0, ResultType::same},
#define ALCOVE_UNARY(number, name, types, result) {kTypes_##types, kResult_##result},
#include "kernels/microkernels/unary/functions.inc"
};
constexpr FunctionInfo kBinary[] = {
    {0, ResultType::same},
#define ALCOVE_BINARY(number, name, types, result) {kTypes_##types, kResult_##result},
#include "kernels/microkernels/binary/functions.inc"
};
// How many operands the special functions have, by number.
constexpr uint8_t kSpecialOperands[] = {
    0,
#define ALCOVE_SPECIAL(number, name, operands) operands,
#include "kernels/microkernels/special/functions.inc"
};
#define ALCOVE_SPECIAL(number, name, operands) \
  static_assert(number >= 1 && number < std::size(kSpecialOperands) && kSpecialOperands[number] == (operands));
#include "kernels/microkernels/special/functions.inc"
// So that the number is the place in the table.
#define ALCOVE_UNARY(number, name, types, result) \
  static_assert(number >= 1 && number < std::size(kUnary) && kUnary[number].dtypes == kTypes_##types);
#include "kernels/microkernels/unary/functions.inc"
#define ALCOVE_BINARY(number, name, types, result) \
  static_assert(number >= 1 && number < std::size(kBinary) && kBinary[number].dtypes == kTypes_##types);
#include "kernels/microkernels/binary/functions.inc"

// The function is in the table and takes input 0; output 0 has the type of its result.
template <size_t size>
Status check_function(const Subject& s, const FunctionInfo (&table)[size]) {
  ALCOVE_TRY(check_integer(s, kFunction, "function", 1, static_cast<int64_t>(size) - 1));
  const FunctionInfo& info = table[s.integer(kFunction)];
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = info.dtypes}));
  return check_same_dtype(s, s.op.outputs[0], "output",
                          info.result == ResultType::same ? s.input(0).dtype : DType::boolean);
}

// Output 0 has the shape to which all inputs are broadcast: aligned at the last dimension, sizes of 1 repeated.
Status check_broadcast(const Subject& s) {
  uint8_t rank = 0;
  for (uint8_t i = 0; i < s.op.input_count; ++i) rank = std::max(rank, s.input(i).rank);
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < rank; ++d) {
    dims[d] = 1;
    for (uint8_t i = 0; i < s.op.input_count; ++i) {
      const Tensor& in = s.input(i);
      if (d + in.rank < rank) continue;
      const uint32_t size = in.dims[d + in.rank - rank];
      if (size == 1 || size == dims[d]) continue;
      if (dims[d] != 1) {
        return failure(Code::op_shape, Section::program,
                       "%s: dimension %d of input %u is %" PRIu32 ", expected 1 or %" PRIu64, s.name(),
                       d + in.rank - rank, i, size, dims[d])
            .in_tensor(s.op.inputs[i]);
      }
      dims[d] = size;
    }
  }
  return check_shape(s, s.op.outputs[0], "output", dims, rank);
}

// The strides, in elements, with which `in` is walked for `out`; 0 where it is repeated.
void set_strides(const Tensor& in, const Tensor& out, size_t (&strides)[kernels::kBroadcastRank]) noexcept {
  size_t stride = 1;
  for (uint8_t d = out.rank; d-- > 0;) {
    const bool is_there = d + in.rank >= out.rank;
    const uint32_t size = is_there ? in.dims[d + in.rank - out.rank] : 1;
    strides[d] = size == 1 ? 0 : stride;
    stride *= size;
  }
}

kernels::BroadcastShape make_shape(const Tensor& out) noexcept {
  static_assert(kMaxRank <= kernels::kBroadcastRank);
  kernels::BroadcastShape shape{out.rank, {}};
  for (uint8_t d = 0; d < out.rank; ++d) shape.dims[d] = out.dims[d];
  return shape;
}

template <typename T>
kernels::Unary<T> make_unary(const Call& c) noexcept {
  return {static_cast<kernels::UnaryFunction>(c.integer(kFunction)), c.in<T>(0), c.out<T>(0),
          c.input(0).element_count()};
}

template <typename T>
kernels::Binary<T> make_binary(const Call& c) noexcept {
  kernels::Binary<T> args;  // without zeros for the dimensions that are not there
  args.function = static_cast<kernels::BinaryFunction>(c.integer(kFunction));
  args.a = c.in<T>(0);
  args.b = c.in<T>(1);
  args.output = c.out<uint8_t>(0);
  args.shape = make_shape(c.output(0));
  set_strides(c.input(0), c.output(0), args.a_strides);
  set_strides(c.input(1), c.output(0), args.b_strides);
  return args;
}

void run_unary_f32(const Call& c) noexcept {
  const size_t count = c.input(0).element_count();
  const size_t result_bytes = dtype_bytes(c.output(0).dtype);
  c.split((count + kChunk - 1) / kChunk, count * kWorkPerElement, [&](size_t first, size_t end, size_t) noexcept {
    const size_t from = first * kChunk, to = end * kChunk < count ? end * kChunk : count;
    c.kernels.unary_f32({static_cast<kernels::UnaryFunction>(c.integer(kFunction)), static_cast<float>(c.real(kA)),
                         static_cast<float>(c.real(kB)), static_cast<float>(c.real(kC)), c.in<float>(0) + from,
                         c.out<uint8_t>(0) + from * result_bytes, to - from});
  });
}

// Along the outermost dimension that has any.
void run_binary_f32(const Call& c) noexcept {
  const kernels::Binary<float> all = make_binary<float>(c);
  size_t outer = 0, inner = 1;
  while (outer + 1 < all.shape.rank && all.shape.dims[outer] == 1) ++outer;
  for (size_t d = outer + 1; d < all.shape.rank; ++d) inner *= all.shape.dims[d];
  const size_t units = all.shape.rank == 0 ? 1 : all.shape.dims[outer];
  const size_t result_bytes = dtype_bytes(c.output(0).dtype);
  c.split(units, units * inner * kWorkPerElement, [&](size_t first, size_t end, size_t) noexcept {
    if (end - first == units) return (void)c.kernels.binary_f32(all);
    kernels::Binary<float> some = all;
    if (all.shape.rank > 0) {
      some.a += first * all.a_strides[outer];
      some.b += first * all.b_strides[outer];
      some.output = static_cast<uint8_t*>(all.output) + first * inner * result_bytes;
      some.shape.dims[outer] = end - first;
    }
    (void)c.kernels.binary_f32(some);  // floats are divided by zero
  });
}

kernels::CastType cast_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32: return kernels::CastType::f32;
    case DType::i8: return kernels::CastType::i8;
    case DType::i32: return kernels::CastType::i32;
    case DType::i64: return kernels::CastType::i64;
    case DType::u8: return kernels::CastType::u8;
    default: return kernels::CastType::boolean;
  }
}

}  // namespace

Status check_unary(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_function(s, kUnary));
  const Tensor& in = s.input(0);
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, in.rank));
  cost = elements(in) * kCostPerElement;
  return {};
}

Status run_unary(const Call& c) noexcept {
  switch (c.input(0).dtype) {
    case DType::f32: run_unary_f32(c); break;
    case DType::i8: c.kernels.unary_i8(make_unary<int8_t>(c)); break;
    case DType::i32: c.kernels.unary_i32(make_unary<int32_t>(c)); break;
    case DType::i64: c.kernels.unary_i64(make_unary<int64_t>(c)); break;
    case DType::u8: c.kernels.unary_u8(make_unary<uint8_t>(c)); break;
    default: c.kernels.unary_bool(make_unary<uint8_t>(c)); break;
  }
  return {};
}

Status check_binary(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_function(s, kBinary));
  ALCOVE_TRY(check_same_dtype(s, s.op.inputs[1], "input 1", s.input(0).dtype));
  ALCOVE_TRY(check_broadcast(s));
  cost = elements(s.output(0)) * kCostPerElement;
  return {};
}

Status run_binary(const Call& c) noexcept {
  bool is_done = true;
  switch (c.input(0).dtype) {
    case DType::f32: run_binary_f32(c); break;
    case DType::i8: is_done = c.kernels.binary_i8(make_binary<int8_t>(c)); break;
    case DType::i32: is_done = c.kernels.binary_i32(make_binary<int32_t>(c)); break;
    case DType::i64: is_done = c.kernels.binary_i64(make_binary<int64_t>(c)); break;
    case DType::u8: is_done = c.kernels.binary_u8(make_binary<uint8_t>(c)); break;
    default: is_done = c.kernels.binary_bool(make_binary<uint8_t>(c)); break;
  }
  if (is_done) return {};
  return c.name_input(1, failure(Code::input_division, Section::file, "an integer divided by zero"));
}

Status check_special(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_integer(s, kSpecialFunction, "function", 1, static_cast<int64_t>(std::size(kSpecialOperands)) - 1));
  const auto function = static_cast<size_t>(s.integer(kSpecialFunction));
  if (s.op.input_count != kSpecialOperands[function]) {
    return failure(Code::op_shape, Section::program, "special: function %zu has %u operands, expected %u", function,
                   s.op.input_count, kSpecialOperands[function]);
  }
  const Tensor& in = s.input(0);
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  for (uint8_t i = 0; i < s.op.input_count; ++i) {
    ALCOVE_TRY(check_type(s, s.op.inputs[i], "input", {.dtypes = kFloat}));
    ALCOVE_TRY(check_shape(s, s.op.inputs[i], "input", dims, in.rank));
  }
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", DType::f32));
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, in.rank));
  const bool is_zeta = function == static_cast<size_t>(kernels::SpecialFunction::k_zeta);
  cost = elements(in) * (is_zeta ? kZetaCost : kSpecialCost);
  return {};
}

Status run_special(const Call& c) noexcept {
  c.kernels.special_f32({static_cast<kernels::SpecialFunction>(c.integer(kSpecialFunction)), c.in<float>(0),
                         c.op.input_count > 1 ? c.in<float>(1) : nullptr, c.out<float>(0), c.input(0).element_count()});
  return {};
}

Status check_bitcast(const Subject& s, Checked& cost) {
  const Tensor& in = s.input(0);
  const Tensor& out = s.output(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kNumbers}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kNumbers}));
  if (dtype_bytes(in.dtype) != dtype_bytes(out.dtype)) {
    return failure(Code::op_type, Section::program, "bitcast: an element of the output has %zu bytes, of the input %zu",
                   static_cast<size_t>(dtype_bytes(out.dtype)), static_cast<size_t>(dtype_bytes(in.dtype)))
        .in_tensor(s.op.outputs[0]);
  }
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, in.rank));
  cost = elements(in) * 4;
  return {};
}

Status run_bitcast(const Call& c) noexcept {
  c.kernels.bitcast_any({c.in<uint8_t>(0), c.out<uint8_t>(0),
                         c.input(0).element_count() * dtype_bytes(c.input(0).dtype), c.output(0).dtype == DType::f32});
  return {};
}

Status check_where(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "condition", {.dtypes = make_set({DType::boolean})}));
  ALCOVE_TRY(check_type(s, s.op.inputs[1], "input 1", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_same_dtype(s, s.op.inputs[2], "input 2", s.input(1).dtype));
  ALCOVE_TRY(check_same_dtype(s, s.op.outputs[0], "output", s.input(1).dtype));
  ALCOVE_TRY(check_broadcast(s));
  cost = elements(s.output(0)) * 4;
  return {};
}

Status run_where(const Call& c) noexcept {
  const Tensor& out = c.output(0);
  kernels::Where args{dtype_bytes(out.dtype),
                      c.in<uint8_t>(0),
                      c.in<uint8_t>(1),
                      c.in<uint8_t>(2),
                      c.out<uint8_t>(0),
                      make_shape(out),
                      {},
                      {},
                      {}};
  set_strides(c.input(0), out, args.condition_strides);
  set_strides(c.input(1), out, args.a_strides);
  set_strides(c.input(2), out, args.b_strides);
  c.kernels.where_any(args);
  return {};
}

Status check_cast(const Subject& s, Checked& cost) {
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kAnyType}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kAnyType}));
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < in.rank; ++d) dims[d] = in.dims[d];
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, in.rank));
  cost = elements(in) * 4;
  return {};
}

Status run_cast(const Call& c) noexcept {
  c.kernels.cast_any({cast_type(c.input(0).dtype), cast_type(c.output(0).dtype), c.in<uint8_t>(0), c.out<uint8_t>(0),
                      c.input(0).element_count()});
  return {};
}

}  // namespace alcove::ops
