// Runs the passes in order; see verify.h.
#include "core/verify.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "core/sha256.h"
#include "core/sizes.h"

namespace alcove {

namespace {

// Copies a section and checks the digest of the copy.
Status copy_section(const uint8_t* data, const format::SectionRecord& record, Section section,
                    std::vector<uint8_t>& copy) {
  copy.assign(data + record.offset, data + record.offset + record.size_bytes);
  const Digest seen = sha256(copy.data(), copy.size());
  if (std::memcmp(seen.data(), record.digest, seen.size()) != 0) {
    return failure(Code::section_digest, section, "the section doesn't have the digest of the section table");
  }
  return {};
}

// The rules of the operators, for the sizes that the program has, or at the bounds of each bucket.
Status check_sizes(Program& program) {
  const std::vector<int32_t> writers = producers(program);
  if (program.symbols.empty()) return check_signatures(program, writers, program.run_cost);
  Program bound = copy_to_bind(program);
  std::vector<int64_t> values(program.expressions.size());
  for (size_t bucket = 0; bucket < program.buckets.size(); ++bucket) {
    ALCOVE_TRY(bind(program, bucket, program.buckets[bucket].bounds, values.data(), bound));
    uint64_t cost = 0;
    ALCOVE_TRY(check_signatures(bound, writers, cost));
    program.run_cost = std::max(program.run_cost, cost);
  }
  return {};
}

}  // namespace

Result<Verified> verify(const uint8_t* data, size_t size) {
  Verified result;
  ALCOVE_TRY(check_framing(data, size, result.framing));
  Program& program = result.program;
  ALCOVE_TRY(copy_section(data, result.framing.program, Section::program, program.bytes));
  if (result.framing.certificate.size_bytes > 0) {
    ALCOVE_TRY(copy_section(data, result.framing.certificate, Section::certificate, result.certificate));
  }
  program.weights_bytes = result.framing.weights.size_bytes;
  ALCOVE_TRY(check_tables(program));
  ALCOVE_TRY(check_order(program));
  ALCOVE_TRY(check_sizes(program));
  ALCOVE_TRY(check_ports(program));
  ALCOVE_TRY(check_plan(program));
  const uint64_t ceiling = session_bytes(program, program.buckets.size() - 1);
  if (result.framing.header.memory_ceiling_bytes != ceiling) {
    return failure(Code::header_memory_ceiling, Section::header,
                   "the header's memory ceiling is %" PRIu64 " bytes, a session takes %" PRIu64,
                   result.framing.header.memory_ceiling_bytes, ceiling);
  }
  return result;
}

}  // namespace alcove
