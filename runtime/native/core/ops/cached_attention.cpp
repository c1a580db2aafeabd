// Attention over a cache of keys and values.
#include <limits>

#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

constexpr OpCode kOp = OpCode::cached_attention;
constexpr Integer kEmptyIsNan{kOp, "empty_is_nan"};
constexpr Real kScale{kOp, "scale"}, kMasked{kOp, "masked"};
constexpr const char* kRoles[] = {"query", "key", "value"};
// A score that a mask sets and that counts for nothing beside any other.
constexpr double kMostMasked = -1e30;

// The mask is [length or 1, span], for all or, in front of a dimension of 1, for each index of the batch.
bool mask_fits(const Tensor& mask, const Tensor& query, uint32_t span) noexcept {
  if (mask.rank < 2 || mask.rank > 4) return false;
  const uint32_t rows = mask.dims[mask.rank - 2], columns = mask.dims[mask.rank - 1];
  if (columns != span || (rows != 1 && rows != query.dims[2])) return false;
  if (mask.rank > 2 && mask.dims[mask.rank - 3] != 1) return false;
  return mask.rank < 4 || mask.dims[0] == 1 || mask.dims[0] == query.dims[0];
}

}  // namespace

Status check_cached_attention(const Subject& s, Checked& cost) {
  for (uint8_t i = 0; i < 3; ++i) {
    ALCOVE_TRY(check_type(s, s.op.inputs[i], kRoles[i], {.dtypes = kFloat, .rank = 4}));
  }
  ALCOVE_TRY(check_type(s, s.op.inputs[3], "mask", {.dtypes = make_set({DType::boolean})}));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "output", {.dtypes = kFloat}));
  ALCOVE_TRY(check_finite(s, kScale, "scale"));
  ALCOVE_TRY(check_integer(s, kEmptyIsNan, "empty_is_nan", 0, 1));
  if (!(s.real(kMasked) <= kMostMasked)) {
    return failure(Code::op_attribute, Section::program, "%s: masked is %g, allowed are -inf and numbers up to %g",
                   s.name(), s.real(kMasked), kMostMasked);
  }
  const Tensor &query = s.input(0), &key = s.input(1), &value = s.input(2);
  const uint32_t heads = query.dims[1], shared = key.dims[1], span = key.dims[2], width = key.dims[3];
  if (heads % shared != 0) {
    return failure(Code::op_shape, Section::program, "%s: %" PRIu32 " heads are not in groups for %" PRIu32 " keys",
                   s.name(), heads, shared)
        .in_tensor(s.op.inputs[1]);
  }
  const uint64_t key_dims[4] = {query.dims[0], shared, span, query.dims[3]};
  ALCOVE_TRY(check_shape(s, s.op.inputs[1], "key", key_dims, 4));
  const uint64_t value_dims[4] = {query.dims[0], shared, span, value.dims[3]};
  ALCOVE_TRY(check_shape(s, s.op.inputs[2], "value", value_dims, 4));
  const uint64_t dims[4] = {query.dims[0], heads, query.dims[2], value.dims[3]};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "output", dims, 4));
  if (!mask_fits(s.input(3), query, span)) {
    return failure(Code::op_shape, Section::program, "%s: the mask can't be broadcast to the scores", s.name())
        .in_tensor(s.op.inputs[3]);
  }
  const Checked floats = kernels::cached_attention_scratch_floats<Checked>(span, width, value.dims[3]);
  ALCOVE_TRY(check_scratch(s, 1, floats * sizeof(float)));
  // Per score the products, and thirty-two for its exponential and the mask; keys and values are packed for each block of rows.
  const uint64_t rows = uint64_t{heads / shared} * query.dims[2],
                 blocks = (rows + kernels::kCachedRows - 1) / kernels::kCachedRows;
  const Checked columns = (span + 15ull) / 16 * 16;
  const Checked both = Checked(width) + (value.dims[3] + 15ull) / 16 * 16 + 32;
  cost = Checked(query.dims[0]) * shared * ((Checked(rows) + Checked(blocks) * 2) * columns * both + 1024);
  return {};
}

Status run_cached_attention(const Call& c) noexcept {
  const Tensor &query = c.input(0), &key = c.input(1), &mask = c.input(3);
  kernels::CachedAttentionF32 args{};
  args.linear = c.kernels.linear_f32;
  args.softmax = c.kernels.softmax_f32;
  args.query = c.in<float>(0);
  args.key = c.in<float>(1);
  args.value = c.in<float>(2);
  args.mask = c.in<uint8_t>(3);
  args.output = c.out<float>(0);
  args.units_of_batch = key.dims[1];
  args.group = query.dims[1] / key.dims[1];
  args.length = query.dims[2];
  args.span = key.dims[2];
  args.width = key.dims[3];
  args.value_width = c.input(2).dims[3];
  const uint32_t mask_rows = mask.dims[mask.rank - 2];
  args.mask_row_stride = mask_rows == 1 ? 0 : args.span;
  args.mask_batch_stride = mask.rank == 4 && mask.dims[0] > 1 ? mask_rows * args.span : 0;
  args.scale = static_cast<float>(c.real(kScale));
  args.masked = static_cast<float>(c.real(kMasked));
  args.empty_is_nan = c.integer(kEmptyIsNan) == 1;
  const size_t units = size_t{query.dims[0]} * key.dims[1];
  const size_t blocks = units * kernels::cached_blocks(args.group, args.length);
  const uint64_t work = units * args.group * args.length * args.span * (args.width + args.value_width + 16);
  c.split(blocks, work, [&](size_t first, size_t end, size_t part) noexcept {
    kernels::CachedAttentionF32 some = args;
    some.scratch = c.scratch<float>(part);
    some.first_block = first;
    some.end_block = end;
    c.kernels.cached_attention_f32(some);
  });
  return {};
}

}  // namespace alcove::ops
