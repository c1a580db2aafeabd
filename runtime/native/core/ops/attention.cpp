// Scaled dot-product attention.
#include <limits>

#include "core/ops/gemm.h"

namespace alcove::ops {

namespace {

constexpr OpCode kOp = OpCode::attention;
constexpr Integer kIsCausal{kOp, "is_causal"}, kEmptyIsNan{kOp, "empty_is_nan"};
constexpr Real kScale{kOp, "scale"}, kMasked{kOp, "masked"};
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

void set_mask_strides(const Tensor& mask, kernels::AttentionF32& args) noexcept {
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
void split_batch(const Call& c, const kernels::AttentionF32& args) noexcept {
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
  const uint64_t work = products * (args.width + args.value_width + kExponentialWork);
  c.split(tiles, work, [&](size_t first, size_t end, size_t part) noexcept {
    kernels::AttentionF32 some = args;
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
    c.kernels.attention_f32(some);
  });
}

}  // namespace

Status check_attention(const Subject& s, Checked& cost) {
  for (uint8_t i = 0; i < 3; ++i) {
    ALCOVE_TRY(check_type(s, s.op.inputs[i], kRoles[i], {.dtypes = kFloat}));
    if (s.input(i).rank < 2) {
      return failure(Code::op_shape, Section::program, "attention: %s has rank %u, expected 2 or more", kRoles[i],
                     s.input(i).rank)
          .in_tensor(s.op.inputs[i]);
    }
  }
  ALCOVE_TRY(check_finite(s, kScale, "scale"));
  ALCOVE_TRY(check_integer(s, kIsCausal, "is_causal", 0, 1));
  if (!(s.real(kMasked) <= std::numeric_limits<float>::max())) {
    return failure(Code::op_attribute, Section::program, "attention: masked is %g, allowed are -inf and numbers",
                   s.real(kMasked));
  }
  ALCOVE_TRY(check_integer(s, kEmptyIsNan, "empty_is_nan", 0, 1));
  const Tensor &key = s.input(1), &value = s.input(2);
  Shapes shapes;
  if (!read_shapes(s.input(0), key, value, shapes)) return batch_failure(s);
  ALCOVE_TRY(check_dimension(s, s.op.inputs[1], "key", key.rank - 1u, shapes.width));
  ALCOVE_TRY(check_dimension(s, s.op.inputs[2], "value", value.rank - 2u, shapes.span));
  ALCOVE_TRY(check_batched_output(s, shapes.batch, shapes.length, shapes.value_width));
  if (s.op.input_count == 4) {
    ALCOVE_TRY(check_type(s, s.op.inputs[3], "mask", {.dtypes = kFloat | make_set({DType::boolean})}));
    if (!mask_fits(s.input(3), shapes)) {
      return failure(Code::op_shape, Section::program, "attention: the mask can't be broadcast to the scores")
          .in_tensor(s.op.inputs[3]);
    }
  }
  const Checked floats =
      kernels::attention_scratch_floats<Checked>(shapes.length, shapes.span, shapes.width, shapes.value_width);
  ALCOVE_TRY(check_scratch(s, 1, floats * sizeof(float)));
  // Per score the products, and sixteen for its exponential; packing is charged as one more row.
  Checked count = 1;
  for (size_t d = 0; d < shapes.batch.rank; ++d) count = count * shapes.batch.dims[d];
  const Checked columns = (shapes.span + 15ull) / 16 * 16;
  const Checked width = Checked(shapes.width) + (shapes.value_width + 15ull) / 16 * 16 + 17;
  cost = count * ((Checked(shapes.length) + 1) * columns * width + 1024);
  return {};
}

Status run_attention(const Call& c) noexcept {
  const Tensor &query = c.input(0), &key = c.input(1), &value = c.input(2);
  Shapes shapes;
  if (!read_shapes(query, key, value, shapes)) return {};  // the rule has seen that they fit
  kernels::AttentionF32 args{};
  args.linear = c.kernels.linear_f32;
  args.softmax = c.kernels.softmax_f32;
  args.query = c.in<float>(0);
  args.key = c.in<float>(1);
  args.value = c.in<float>(2);
  args.output = c.out<float>(0);
  args.batch_rank = shapes.batch.rank;
  for (size_t d = 0; d < shapes.batch.rank; ++d) args.batch[d] = shapes.batch.dims[d];
  set_strides(query, shapes.batch, args.query_strides);
  set_strides(key, shapes.batch, args.key_strides);
  set_strides(value, shapes.batch, args.value_strides);
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
  args.scale = static_cast<float>(c.real(kScale));
  args.masked = static_cast<float>(c.real(kMasked));
  args.is_causal = c.integer(kIsCausal) == 1;
  args.empty_is_nan = c.integer(kEmptyIsNan) == 1;
  split_batch(c, args);
  return {};
}

}  // namespace alcove::ops
