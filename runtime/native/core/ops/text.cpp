// Texts: ngram_hash.
#include "core/ops/ops.h"
#include "kernels/microkernels/ngram_hash/ngram_hash.h"

namespace alcove::ops {

Status check_ngram_hash(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "text", {.dtypes = make_set({DType::text}), .rank = 0}));
  ALCOVE_TRY(
      check_type(s, s.op.outputs[0], "ids", {.dtypes = make_set({DType::i32}), .rank = 1, .may_be_ragged = true}));
  if (!s.output(0).is_ragged) {
    return failure(Code::op_type, Section::program, "ngram_hash: ids must be ragged").in_tensor(s.op.outputs[0]);
  }
  const bool fits = s.integer(0) >= 1 && s.integer(0) <= kernels::kNgramMaxOrder && s.integer(1) >= 1 &&
                    s.integer(1) <= kernels::kNgramMaxOrder && s.integer(2) >= 1 && s.integer(2) <= INT32_MAX;
  const kernels::NgramHashParams params = {fits ? static_cast<int32_t>(s.integer(0)) : 0,
                                           fits ? static_cast<int32_t>(s.integer(1)) : 0,
                                           fits ? static_cast<uint32_t>(s.integer(2)) : 0, s.op.attributes[3]};
  if (!kernels::is_valid(params)) {
    return failure(Code::op_attribute, Section::program,
                   "ngram_hash: orders %" PRId64 " to %" PRId64 " with %" PRId64
                   " buckets; allowed are 1 to %d and 1 to 2^31 - 1",
                   s.integer(0), s.integer(1), s.integer(2), kernels::kNgramMaxOrder);
  }
  cost = s.output(0).dims[0];
  return {};
}

Status run_ngram_hash(const Call& c) noexcept {
  const kernels::NgramHashParams params = {static_cast<int32_t>(c.integer(0)), static_cast<int32_t>(c.integer(1)),
                                           static_cast<uint32_t>(c.integer(2)), c.op.attributes[3]};
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
