// Texts: ngram_hash, tokenize, detokenize.
#include "core/ops/ops.h"
#include "kernels/microkernels/detokenize/detokenize.h"
#include "kernels/microkernels/ngram_hash/ngram_hash.h"
#include "kernels/microkernels/tokenize/tokenize.h"

namespace alcove::ops {

namespace {

constexpr OpCode kOp = OpCode::ngram_hash;
constexpr Integer kMinOrder{kOp, "min_order"}, kMaxOrder{kOp, "max_order"}, kBuckets{kOp, "buckets"};
constexpr Bits kSeed{kOp, "seed"};
constexpr Integer kMaxBytes{OpCode::tokenize, "max_bytes"};
// Searches at each of kTextPerByte bytes of a text and at one of the normalized text: at most as many steps as a piece has bytes, each of
// two searches among a million pieces.
constexpr uint64_t kCostPerByte = 51000;

Status check_table(const Subject& s) {
  return check_type(s, s.op.inputs[1], "table", {.dtypes = make_set({DType::u8}), .rank = 1, .is_constant = true});
}

Status check_count(const Subject& s, uint8_t output) {
  const uint64_t one[] = {1};
  ALCOVE_TRY(check_type(s, s.op.outputs[output], "count", {.dtypes = make_set({DType::i64})}));
  return check_shape(s, s.op.outputs[output], "count", one, 1);
}

Status refuse_table(const Call& c) {
  return failure(Code::token_table, Section::file, "%s: the table is not one of this operator (docs/format.md)",
                 op_info(static_cast<uint16_t>(c.op.code))->name());
}

Status refuse_text(const Call& c, size_t position) {
  Status status = failure(Code::invalid_text, Section::file, "not valid UTF-8: bad byte at position %zu", position);
  status.position = position;
  return c.name_input(0, status);
}

}  // namespace

Status check_ngram_hash(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "text", {.dtypes = make_set({DType::text}), .rank = 0}));
  ALCOVE_TRY(
      check_type(s, s.op.outputs[0], "ids", {.dtypes = make_set({DType::i32}), .rank = 1, .may_be_ragged = true}));
  if (s.op.input_count == 2) ALCOVE_TRY(check_table(s));
  if (!s.output(0).is_ragged) {
    return failure(Code::op_type, Section::program, "ngram_hash: ids must be ragged").in_tensor(s.op.outputs[0]);
  }
  const int64_t least = s.integer(kMinOrder), most = s.integer(kMaxOrder), buckets = s.integer(kBuckets);
  const bool fits = least >= 1 && least <= kernels::kNgramMaxOrder && most >= 1 && most <= kernels::kNgramMaxOrder &&
                    buckets >= 1 && buckets <= INT32_MAX;
  const kernels::NgramHashParams params = {fits ? static_cast<int32_t>(least) : 0,
                                           fits ? static_cast<int32_t>(most) : 0,
                                           fits ? static_cast<uint32_t>(buckets) : 0, s.bits(kSeed)};
  if (!kernels::is_valid(params)) {
    return failure(Code::op_attribute, Section::program,
                   "ngram_hash: orders %" PRId64 " to %" PRId64 " with %" PRId64
                   " buckets; allowed are 1 to %d and 1 to 2^31 - 1",
                   least, most, buckets, kernels::kNgramMaxOrder);
  }
  cost = s.output(0).dims[0];
  return {};
}

Status run_ngram_hash(const Call& c) noexcept {
  kernels::NgramHashParams params = {static_cast<int32_t>(c.integer(kMinOrder)),
                                     static_cast<int32_t>(c.integer(kMaxOrder)),
                                     static_cast<uint32_t>(c.integer(kBuckets)), c.bits(kSeed)};
  if (c.op.input_count == 2) {
    params.table = c.in<uint8_t>(1);
    params.table_size = c.input(1).dims[0];
  }
  const kernels::NgramHashResult result =
      c.kernels.ngram_hash_text(c.in<uint8_t>(0), c.extent(0), params, c.out<int32_t>(0), c.output(0).dims[0]);
  if (result.status == kernels::NgramHashStatus::invalid_utf8) return refuse_text(c, result.position);
  if (result.status == kernels::NgramHashStatus::invalid_table) return refuse_table(c);
  c.set_extent(0, result.count);
  return {};
}

Status check_tokenize(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "text", {.dtypes = make_set({DType::text}), .rank = 0}));
  ALCOVE_TRY(check_table(s));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "ids", {.dtypes = make_set({DType::i64}), .rank = 1}));
  ALCOVE_TRY(check_integer(s, kMaxBytes, "max_bytes", 1, kMaxBagIds));
  const auto most = static_cast<uint64_t>(s.integer(kMaxBytes));
  ALCOVE_TRY(check_scratch(s, 1, kernels::tokenize_scratch_bytes(Checked(most))));
  ALCOVE_TRY(check_count(s, 2));
  cost = Checked(most) * kCostPerByte + elements(s.output(0));
  return {};
}

Status run_tokenize(const Call& c) noexcept {
  const kernels::TokenizeResult result =
      c.kernels.tokenize_text({.text = c.in<uint8_t>(0),
                               .size = c.extent(0),
                               .table = c.in<uint8_t>(1),
                               .table_size = c.input(1).dims[0],
                               .max_bytes = static_cast<size_t>(c.integer(kMaxBytes)),
                               .scratch = c.out<uint8_t>(1),
                               .ids = c.out<int64_t>(0),
                               .capacity = c.output(0).dims[0],
                               .is_cancelled = watched_flag()});
  if (result.status == kernels::TokenizeStatus::invalid_utf8) return refuse_text(c, result.position);
  if (result.status == kernels::TokenizeStatus::invalid_table) return refuse_table(c);
  *c.out<int64_t>(2) = static_cast<int64_t>(result.count);
  return {};
}

Status check_detokenize(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "ids", {.dtypes = make_set({DType::i64}), .rank = 1}));
  ALCOVE_TRY(check_table(s));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "bytes", {.dtypes = make_set({DType::u8}), .rank = 1}));
  ALCOVE_TRY(check_count(s, 1));
  cost = elements(s.input(0)) * 64 + elements(s.output(0));
  return {};
}

Status run_detokenize(const Call& c) noexcept {
  const auto* ids = c.in<int64_t>(0);
  const kernels::DetokenizeResult result = c.kernels.detokenize_i64({.ids = ids,
                                                                     .count = c.input(0).dims[0],
                                                                     .table = c.in<uint8_t>(1),
                                                                     .table_size = c.input(1).dims[0],
                                                                     .bytes = c.out<uint8_t>(0),
                                                                     .capacity = c.output(0).dims[0]});
  if (result.status == kernels::DetokenizeStatus::invalid_table) return refuse_table(c);
  if (result.status == kernels::DetokenizeStatus::bad_id) {
    return c.bad_index(0, result.position, ids[result.position], 0, static_cast<int64_t>(result.vocabulary));
  }
  *c.out<int64_t>(1) = static_cast<int64_t>(result.count);
  return {};
}

}  // namespace alcove::ops
