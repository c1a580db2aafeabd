// Runs the passes in order; see verify.h.
#include "core/verify.h"

#include <cinttypes>
#include <cstring>

#include "core/sha256.h"

namespace alcove {

namespace {

// Copies a section and checks the digest of the copy.
Status copy_section(const uint8_t* data, const format::SectionRecord& record, Section section, std::vector<uint8_t>& copy) {
  copy.assign(data + record.offset, data + record.offset + record.size_bytes);
  const Digest seen = sha256(copy.data(), copy.size());
  if (std::memcmp(seen.data(), record.digest, seen.size()) != 0) {
    return failure(Code::section_digest, section, "the section doesn't have the digest of the section table");
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
  ALCOVE_TRY(check_signatures(program));
  ALCOVE_TRY(check_ports(program));
  ALCOVE_TRY(check_plan(program));
  if (result.framing.header.memory_ceiling_bytes != session_bytes(program)) {
    return failure(Code::header_memory_ceiling, Section::header,
                   "the header's memory ceiling is %" PRIu64 " bytes, a session takes %" PRIu64,
                   result.framing.header.memory_ceiling_bytes, session_bytes(program));
  }
  return result;
}

}  // namespace alcove
