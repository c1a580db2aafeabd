// Runs the passes in order; see verify.h.
#include "core/verify.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "core/sha256.h"
#include "core/sizes.h"
#include "core/methods.h"
#include "core/tables.h"

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

// Passes 2 to 6.
Status check_program(Program& program, Constants& constants) {
  ALCOVE_TRY(check_tables(program, constants));
  ALCOVE_TRY(check_order(program));
  ALCOVE_TRY(check_sizes(program));
  ALCOVE_TRY(check_ports(program));
  return check_plan(program);
}

// What refuses a method but the first, by its name.
Status name_method(const Status& status, std::string_view name) {
  Status named = failure(status.code, Section::methods, "method %.*s: %s", static_cast<int>(name.size()), name.data(),
                         status.message);
  named.op = status.op;
  named.tensor = status.tensor;
  return named;
}

}  // namespace

Result<Verified> verify(const uint8_t* data, size_t size) {
  Verified result;
  ALCOVE_TRY(check_framing(data, size, result.framing));
  Methods& methods = result.methods;
  if (result.framing.methods.size_bytes > 0) {
    ALCOVE_TRY(copy_section(data, result.framing.methods, Section::methods, methods.bytes));
  }
  ALCOVE_TRY(read_methods(methods));
  ALCOVE_TRY(copy_section(data, result.framing.program, Section::program, methods.all[0].program.bytes));
  if (result.framing.certificate.size_bytes > 0) {
    ALCOVE_TRY(copy_section(data, result.framing.certificate, Section::certificate, result.certificate));
  }
  Constants constants(result.framing.weights.size_bytes, result.framing.header.minor);
  for (size_t m = 0; m < methods.all.size(); ++m) {
    constants.begin_method();
    const Status status = check_program(methods.all[m].program, constants);
    if (!status.is_ok()) return m == 0 ? status : name_method(status, methods.all[m].name);
  }
  ALCOVE_TRY(constants.check_end());
  ALCOVE_TRY(join_states(methods));
  ALCOVE_TRY(place_widened(methods));
  const uint64_t ceiling = ceiling_bytes(methods);
  if (result.framing.header.memory_ceiling_bytes != ceiling) {
    return failure(Code::header_memory_ceiling, Section::header,
                   "the header's memory ceiling is %" PRIu64 " bytes, a session takes %" PRIu64,
                   result.framing.header.memory_ceiling_bytes, ceiling);
  }
  return result;
}

}  // namespace alcove
