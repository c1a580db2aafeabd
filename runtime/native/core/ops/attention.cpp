// Scaled dot-product attention, of float32 and of int8.
#include <limits>

#include "core/ops/gemm.h"
#include "core/ops/quantized.h"
#include "kernels/operators/attention_i8/attention_i8.h"

namespace alcove::ops {

namespace {

constexpr OpCode kOp = OpCode::attention;
constexpr Integer kIsCausal{kOp, "is_causal"}, kEmptyIsNan{kOp, "empty_is_nan"};
constexpr Real kScale{kOp, "scale"}, kMasked{kOp, "masked"};
constexpr OpCode kOp8 = OpCode::attention_i8;
constexpr Integer kIsCausal8{kOp8, "is_causal"};
constexpr Integer kZeroPoints[] = {{kOp8, "query_zero_point"}, {kOp8, "key_zero_point"}, {kOp8, "value_zero_point"}};
constexpr Real kScale8{kOp8, "scale"}, kMasked8{kOp8, "masked"}, kRatio8{kOp8, "ratio"};
constexpr Int8Output kOutput8{kOp8};
constexpr const char* kRoles[] = {"query", "key", "value"};

// What the shapes of query, key and value say together.
struct Shapes {
  Batch batch;
  size_t group = 1;  // so many neighbours of the last batch dimension share key and value
  uint32_t length = 0, span = 0, width = 0, value_width = 0;
};

// False if the batch dimensions don't fit.  Precondition: ranks are 2 or more.
bool read_shapes(const Tensor& query, const Tensor& key, const Tensor& value, Shapes& shapes) noexcept {
  shapes.length = query.dims[query.rank - 2];
  shapes.width = query.dims[query.rank - 1];
  shapes.span = key.dims[key.rank - 2];
  shapes.value_width = value.dims[value.rank - 1];
  if (!broadcast_into(query, shapes.batch)) return false;
  if (query.rank < 3 || key.rank < 3 || value.rank < 3) {
    return broadcast_into(key, shapes.batch) && broadcast_into(value, shapes.batch);
  }
  const uint32_t heads = query.dims[query.rank - 3], shared = key.dims[key.rank - 3];
  if (value.dims[value.rank - 3] != shared || shared == 1 || shared >= heads || heads % shared != 0) {
    return broadcast_into(key, shapes.batch) && broadcast_into(value, shapes.batch);
  }
  shapes.group = heads / shared;
  Tensor whole_key = key, whole_value = value;
  whole_key.dims[key.rank - 3] = heads;
  whole_value.dims[value.rank - 3] = heads;
  return broadcast_into(whole_key, shapes.batch) && broadcast_into(whole_value, shapes.batch);
}

// The mask's dimensions are those of the scores, [batch..., length, span], or 1, or left out at the front.
bool mask_fits(const Tensor& mask, const Shapes& shapes) noexcept {
  const size_t rank = shapes.batch.rank + 2;
  if (mask.rank > rank) return false;
  for (size_t d = 0; d < mask.rank; ++d) {
    const size_t at = rank - mask.rank + d;
    const size_t size = at < shapes.batch.rank    ? shapes.batch.dims[at]
                        : at == shapes.batch.rank ? shapes.length
                                                  : shapes.span;
    if (mask.dims[d] != 1 && mask.dims[d] != size) return false;
  }
  return true;
}

template <typename Args>
void set_mask_strides(const Tensor& mask, Args& args) noexcept {
  size_t stride = 1;
  for (size_t back = 1; back <= mask.rank; ++back) {
    const uint32_t size = mask.dims[mask.rank - back];
    const size_t used = size == 1 ? 0 : stride;
    if (back == 1) {
      args.mask_column_stride = used;
    } else if (back == 2) {
      args.mask_row_stride = used;
    } else {
      args.mask_strides[args.batch_rank + 2 - back] = used;
    }
    stride *= size;
  }
}

// Indices of the outermost batch dimension that is not 1; neighbours that share key and value stay together.
template <typename Args, typename Run>
void split_batch(const Call& c, const Args& args, uint64_t gain, Run run) noexcept {
  size_t outer = 0;
  while (outer + 1 < args.batch_rank && args.batch[outer] == 1) ++outer;
  const bool has_batch = args.batch_rank > 0;
  const size_t tile = has_batch && outer + 1 == args.batch_rank ? args.group : 1;
  const size_t count = has_batch ? args.batch[outer] : 1, tiles = (count + tile - 1) / tile;
  size_t products = args.length * args.span;
  for (size_t d = 0; d < args.batch_rank; ++d) products *= args.batch[d];
  size_t inner = args.length * args.value_width;
  for (size_t d = outer + 1; d < args.batch_rank; ++d) inner *= args.batch[d];
  constexpr size_t kExponentialWork = 16;
  const uint64_t work = products * ((args.width + args.value_width) / gain + kExponentialWork);
  c.split(tiles, work, [&](size_t first, size_t end, size_t part) noexcept {
    Args some = args;
    some.scratch = c.scratch<float>(part);
    if (has_batch) {
      const size_t from = first * tile, to = end * tile < count ? end * tile : count;
      some.batch[outer] = to - from;
      some.query += from * args.query_strides[outer];
      some.key += from / tile * args.key_strides[outer];  // each key of the last dimension is that of a group
      some.value += from / tile * args.value_strides[outer];
      if (some.float_mask != nullptr) some.float_mask += from * args.mask_strides[outer];
      if (some.bool_mask != nullptr) some.bool_mask += from * args.mask_strides[outer];
      some.output += from * inner;
    }
    run(some);
  });
}

Status check_masked(const Subject& s, double masked) {
  if (masked <= std::numeric_limits<float>::max()) return {};
  return failure(Code::op_attribute, Section::program, "%s: masked is %g, allowed are -inf and numbers", s.name(),
                 masked);
}

// What both operators check of their tensors.
Status check_tensors(const Subject& s, uint32_t dtypes, Shapes& shapes) {
  for (uint8_t i = 0; i < 3; ++i) {
    ALCOVE_TRY(check_type(s, s.op.inputs[i], kRoles[i], {.dtypes = dtypes}));
    if (s.input(i).rank < 2) {
      return failure(Code::op_shape, Section::program, "%s: %s has rank %u, expected 2 or more", s.name(), kRoles[i],
                     s.input(i).rank)
          .in_tensor(s.op.inputs[i]);
    }
  }
  const Tensor &key = s.input(1), &value = s.input(2);
  if (!read_shapes(s.input(0), key, value, shapes)) return batch_failure(s);
  ALCOVE_TRY(check_dimension(s, s.op.inputs[1], "key", key.rank - 1u, shapes.width));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "value", value.rank - 2u, shapes.span));
  if (s.op.input_count < 4) return {};
  ALCOVE_TRY(check_type(s, s.op.inputs[3], "mask", {.dtypes = kFloat | make_set({DType::boolean})}));
  if (mask_fits(s.input(3), shapes)) return {};
  return failure(Code::op_shape, Section::program, "%s: the mask can't be broadcast to the scores", s.name())
      .in_tensor(s.op.inputs[3]);
}

// Per score the products, and sixteen for its exponential; packing is charged as one more row.
Checked compute_cost(const Shapes& shapes) {
  Checked count = 1;
  for (size_t d = 0; d < shapes.batch.rank; ++d) count = count * shapes.batch.dims[d];
  const Checked columns = (shapes.span + 15ull) / 16 * 16;
  const Checked width = Checked(shapes.width) + (shapes.value_width + 15ull) / 16 * 16 + 17;
  return count * ((Checked(shapes.length) + 1) * columns * width + 1024);
}

// Operands, sizes and the mask.
template <typename Args, typename Element>
void set_operands(const Call& c, const Shapes& shapes, Args& args) noexcept {
  args.query = c.in<Element>(0);
  args.key = c.in<Element>(1);
  args.value = c.in<Element>(2);
  args.output = c.out<Element>(0);
  args.batch_rank = shapes.batch.rank;
  for (size_t d = 0; d < shapes.batch.rank; ++d) args.batch[d] = shapes.batch.dims[d];
  set_strides(c.input(0), shapes.batch, args.query_strides);
  set_strides(c.input(1), shapes.batch, args.key_strides);
  set_strides(c.input(2), shapes.batch, args.value_strides);
  if (c.op.input_count == 4) {
    const Tensor& mask = c.input(3);
    if (mask.dtype == DType::f32) {
      args.float_mask = c.in<float>(3);
    } else {
      args.bool_mask = c.in<uint8_t>(3);
    }
    set_mask_strides(mask, args);
  }
  args.group = shapes.group;
  args.length = shapes.length;
  args.span = shapes.span;
  args.width = shapes.width;
  args.value_width = shapes.value_width;
}

}  // namespace

Status check_attention(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_finite(s, kScale, "scale"));
  ALCOVE_TRY(check_integer(s, kIsCausal, "is_causal", 0, 1));
  ALCOVE_TRY(check_masked(s, s.real(kMasked)));
  ALCOVE_TRY(check_integer(s, kEmptyIsNan, "empty_is_nan", 0, 1));
  Shapes shapes;
  ALCOVE_TRY(check_tensors(s, kFloat, shapes));
  ALCOVE_TRY(check_batched_output(s, shapes.batch, shapes.length, shapes.value_width));
  const Checked floats =
      kernels::attention_scratch_floats<Checked>(shapes.length, shapes.span, shapes.width, shapes.value_width);
  ALCOVE_TRY(check_scratch(s, 1, floats * sizeof(float)));
  cost = compute_cost(shapes);
  return {};
}

Status run_attention(const Call& c) noexcept {
  Shapes shapes;
  if (!read_shapes(c.input(0), c.input(1), c.input(2), shapes)) return {};  // the rule has seen that they fit
  kernels::AttentionF32 args{};
  args.linear = c.kernels.linear_f32;
  args.softmax = c.kernels.softmax_f32;
  set_operands<kernels::AttentionF32, float>(c, shapes, args);
  args.scale = static_cast<float>(c.real(kScale));
  args.masked = static_cast<float>(c.real(kMasked));
  args.is_causal = c.integer(kIsCausal) == 1;
  args.empty_is_nan = c.integer(kEmptyIsNan) == 1;
  split_batch(c, args, 1, [&c](const kernels::AttentionF32& some) noexcept { c.kernels.attention_f32(some); });
  return {};
}

Status check_attention_i8(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_scale(s, kScale8, "scale"));
  ALCOVE_TRY(check_scale(s, kRatio8, "ratio"));
  ALCOVE_TRY(check_integer(s, kIsCausal8, "is_causal", 0, 1));
  ALCOVE_TRY(check_masked(s, s.real(kMasked8)));
  for (uint8_t i = 0; i < 3; ++i) ALCOVE_TRY(check_int8(s, kZeroPoints[i], kRoles[i]));
  ALCOVE_TRY(check_int8_output(s, kOutput8));
  Shapes shapes;
  ALCOVE_TRY(check_tensors(s, kInt8, shapes));
  ALCOVE_TRY(check_batched_output(s, shapes.batch, shapes.length, shapes.value_width, kInt8));
  ALCOVE_TRY(check_gemm_i8(s, shapes.width));
  if (shapes.span > kernels::kMaxSpanI8) {
    return failure(Code::op_shape, Section::program, "attention_i8: %" PRIu32 " keys, at most %zu are allowed",
                   shapes.span, kernels::kMaxSpanI8)
        .in_tensor(s.op.inputs[1]);
  }
  ALCOVE_TRY(
      check_scratch(s, 1, kernels::attention_i8_scratch_bytes<Checked>(shapes.span, shapes.width, shapes.value_width)));
  cost = compute_cost(shapes);
  return {};
}

Status run_attention_i8(const Call& c) noexcept {
  Shapes shapes;
  if (!read_shapes(c.input(0), c.input(1), c.input(2), shapes)) return {};  // the rule has seen that they fit
  kernels::AttentionI8 args{};
  args.linear = c.kernels.linear_i8_i8;
  args.softmax = c.kernels.softmax_f32;
  set_operands<kernels::AttentionI8, int8_t>(c, shapes, args);
  args.scale = static_cast<float>(c.real(kScale8));
  args.ratio = static_cast<float>(c.real(kRatio8));
  args.masked = static_cast<float>(c.real(kMasked8));
  args.is_causal = c.integer(kIsCausal8) == 1;
  args.query_zero_point = static_cast<int32_t>(c.integer(kZeroPoints[0]));
  args.key_zero_point = static_cast<int32_t>(c.integer(kZeroPoints[1]));
  args.value_zero_point = static_cast<int32_t>(c.integer(kZeroPoints[2]));
  kOutput8.read(c, args);
  constexpr uint64_t kInt8Gain = 4;
  split_batch(c, args, kInt8Gain, [&c](const kernels::AttentionI8& some) noexcept { c.kernels.attention_i8_i8(some); });
  return {};
}

}  // namespace alcove::ops
