// Texts: ngram_hash.
#include "core/ops/ops.h"
#include "kernels/microkernels/ngram_hash/ngram_hash.h"

namespace alcove::ops {

namespace {

constexpr OpCode kOp = OpCode::ngram_hash;
constexpr Integer kMinOrder{kOp, "min_order"}, kMaxOrder{kOp, "max_order"}, kBuckets{kOp, "buckets"};
constexpr Bits kSeed{kOp, "seed"};

}  // namespace

Status check_ngram_hash(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "text", {.dtypes = make_set({DType::text}), .rank = 0}));
  ALCOVE_TRY(
      check_type(s, s.op.outputs[0], "ids", {.dtypes = make_set({DType::i32}), .rank = 1, .may_be_ragged = true}));
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
  const kernels::NgramHashParams params = {static_cast<int32_t>(c.integer(kMinOrder)),
                                           static_cast<int32_t>(c.integer(kMaxOrder)),
                                           static_cast<uint32_t>(c.integer(kBuckets)), c.bits(kSeed)};
  const kernels::NgramHashResult result =
      c.kernels.ngram_hash_text(c.in<uint8_t>(0), c.extent(0), params, c.out<int32_t>(0), c.output(0).dims[0]);
  if (result.status != kernels::NgramHashStatus::ok) {
    Status status =
        failure(Code::invalid_text, Section::file, "not valid UTF-8: bad byte at position %zu", result.position);
    status.position = result.position;
    return c.name_input(0, status);
  }
  c.set_extent(0, result.count);
  return {};
}

}  // namespace alcove::ops
