// Pass 1: header, section table, and where the sections lie.
#include <cinttypes>
#include <cstring>

#include "core/checked.h"
#include "core/sha256.h"
#include "core/verify.h"

namespace alcove {

namespace {

using format::FileHeader;
using format::SectionRecord;

bool is_zero(const uint8_t* data, uint64_t size) {
  // Each byte is its neighbour, and the first is zero: up to a page of padding is compared at every load.
  return size == 0 || (data[0] == 0 && std::memcmp(data, data + 1, size - 1) == 0);
}

bool has_digest(const uint8_t* data, uint64_t size, const uint8_t (&expected)[32]) {
  const Digest seen = sha256(data, size);
  return std::memcmp(seen.data(), expected, sizeof(expected)) == 0;
}

Section find_section(uint32_t kind) {
  switch (kind) {
    case format::kProgram: return Section::program;
    case format::kCertificate: return Section::certificate;
    case format::kWeights: return Section::weights;
    case format::kMethods: return Section::methods;
    default: return Section::table;
  }
}

// Kind, flags and size, whatever the position.
Status check_record(const FileHeader& header, const SectionRecord& record, uint32_t index) {
  const Section section = find_section(record.kind);
  uint32_t flags = format::kCritical;
  uint64_t cap = kMaxFileBytes;
  if (record.kind == format::kMethods && header.minor == 0) {
    return failure(Code::section_kind, section, "a file of version 2.0 has no section of kind %" PRIu32, record.kind);
  }
  switch (record.kind) {
    case format::kProgram: cap = kMaxProgramBytes; break;
    case format::kCertificate:
      cap = kMaxCertificateBytes;
      flags = 0;
      break;
    case format::kWeights: break;
    case format::kMethods: cap = kMaxProgramBytes; break;
    default:
      // A later minor version may add sections that may be skipped; this one has none.
      if (record.kind == 0 || header.minor <= format::kMinor || (record.flags & format::kCritical) != 0) {
        return failure(Code::section_kind, section, "section %" PRIu32 " has the unknown kind %" PRIu32, index,
                       record.kind);
      }
      flags = 0;
  }
  if (record.flags != flags) {
    return failure(Code::section_flags, section, "section %" PRIu32 " has flags %#" PRIx32 ", expected %#" PRIx32,
                   index, record.flags, flags);
  }
  if (record.size_bytes == 0 || record.size_bytes > cap) {
    return failure(Code::section_size, section, "section %" PRIu32 " has %" PRIu64 " bytes, allowed are 1 to %" PRIu64,
                   index, record.size_bytes, cap);
  }
  if (!is_zero(record.zero, sizeof(record.zero))) {
    return failure(Code::padding, section, "the record of section %" PRIu32 " has unused bytes that are not zero",
                   index);
  }
  return {};
}

// Whether the columns of the last panel that stand for no output are zero.
bool has_zero_columns(const Tensor& tensor, const uint8_t* panels) {
  const uint64_t element_bytes = dtype_bytes(tensor.stored);
  const uint64_t used = tensor.dims[0] % 16 * element_bytes, row_bytes = 16 * element_bytes;
  if (used == 0) return true;
  const uint64_t last = tensor.dims[0] / 16 * (uint64_t{tensor.dims[1]} + 1) * row_bytes;
  for (uint64_t row = last; row < tensor.stored_bytes(); row += row_bytes) {
    if (!is_zero(panels + row + used, row_bytes - used)) return false;
  }
  return true;
}

}  // namespace

Status check_framing(const uint8_t* data, size_t size, Framing& framing) {
  if (size < sizeof(FileHeader)) {
    return failure(Code::file_too_small, Section::file, "the file has %zu bytes, a header takes %zu", size,
                   sizeof(FileHeader));
  }
  if (size > kMaxFileBytes) {
    return failure(Code::file_too_large, Section::file, "the file has %zu bytes, the cap is %" PRIu64, size,
                   kMaxFileBytes);
  }
  FileHeader& header = framing.header;
  std::memcpy(&header, data, sizeof(header));
  if (std::memcmp(header.magic, format::kMagic, sizeof(header.magic)) != 0) {
    return failure(Code::header_magic, Section::header, "the first 8 bytes are not those of an .alc program");
  }
  if (header.major != format::kMajor) {
    return failure(Code::header_version, Section::header, "the format is version %u.%u, this runtime reads %u.x",
                   header.major, header.minor, format::kMajor);
  }
  if (header.file_bytes != size) {
    return failure(Code::header_file_size, Section::header, "the header says %" PRIu64 " bytes, the file has %zu",
                   header.file_bytes, size);
  }
  if (header.section_count == 0 || header.section_count > kMaxSections) {
    return failure(Code::section_count, Section::header, "the file has %" PRIu32 " sections, allowed are 1 to %" PRIu32,
                   header.section_count, kMaxSections);
  }
  const uint64_t table_bytes = uint64_t{header.section_count} * sizeof(SectionRecord);
  if (size - sizeof(FileHeader) < table_bytes) {
    return failure(Code::section_range, Section::table, "the table of %" PRIu32 " sections ends beyond the file",
                   header.section_count);
  }

  // Private copies: what is checked below is what is used later, whatever happens to a mapped file meanwhile.
  SectionRecord records[kMaxSections];
  std::memcpy(records, data + sizeof(FileHeader), table_bytes);
  uint8_t digested[format::kDigestedHeaderBytes + sizeof(records)];
  std::memcpy(digested, &header, format::kDigestedHeaderBytes);
  std::memcpy(digested + format::kDigestedHeaderBytes, records, table_bytes);
  if (!has_digest(digested, format::kDigestedHeaderBytes + table_bytes, header.digest)) {
    return failure(Code::header_digest, Section::header, "header and section table don't have the header's digest");
  }

  framing.program = framing.certificate = framing.weights = framing.methods = SectionRecord{};
  uint32_t kind = 0;
  uint64_t end = sizeof(FileHeader) + table_bytes;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const SectionRecord& record = records[i];
    ALCOVE_TRY(check_record(header, record, i));
    if (record.kind <= kind) {
      return failure(Code::section_order, Section::table,
                     "section %" PRIu32 " of kind %" PRIu32 " follows kind %" PRIu32, i, record.kind, kind);
    }
    kind = record.kind;
    const uint64_t alignment = kind == format::kWeights ? kWeightsAlignment : kSectionAlignment;
    const Checked start = Checked(end).aligned(alignment);
    const Checked stop = start + record.size_bytes;
    if (!start.is(record.offset) || !stop.is_at_most(size)) {
      return failure(Code::section_range, find_section(kind),
                     "section %" PRIu32 " is at %" PRIu64 " with %" PRIu64
                     " bytes; it must start at the first multiple of %" PRIu64 " from %" PRIu64 " and end within %zu",
                     i, record.offset, record.size_bytes, alignment, end, size);
    }
    if (!is_zero(data + end, record.offset - end)) {
      return failure(Code::padding, Section::file, "bytes between %" PRIu64 " and %" PRIu64 " are not zero", end,
                     record.offset);
    }
    end = stop.value();
    if (kind == format::kProgram) framing.program = record;
    if (kind == format::kCertificate) framing.certificate = record;
    if (kind == format::kWeights) framing.weights = record;
    if (kind == format::kMethods) framing.methods = record;
  }
  if (framing.program.size_bytes == 0) {
    return failure(Code::section_kind, Section::table, "there is no PROGRAM section");
  }
  if (end != size) {
    return failure(Code::trailing_bytes, Section::file, "%" PRIu64 " bytes follow the last section", size - end);
  }
  return {};
}

// Of the constants of one method; `end` is that of the constants of those before it, and becomes that of all.
static Status check_padding(const uint8_t* weights, const Program& program, uint64_t& end) {
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.storage != Storage::constant) continue;
    if (tensor.offset >= end && !is_zero(weights + end, tensor.offset - end)) {
      return failure(Code::weights_padding, Section::weights, "bytes between %" PRIu64 " and %" PRIu64 " are not zero",
                     end, tensor.offset)
          .in_tensor(t);
    }
    if (tensor.layout == Layout::panel16 && !has_zero_columns(tensor, weights + tensor.offset)) {
      return failure(Code::weights_padding, Section::weights,
                     "columns beyond the %" PRIu32 " of a matrix in panels are not zero", tensor.dims[0])
          .in_tensor(t);
    }
    if (tensor.offset >= end) end = tensor.offset + tensor.stored_bytes();
  }
  return {};
}

Status verify_weights(const uint8_t* data, const Framing& framing, const Methods& methods) {
  const SectionRecord& record = framing.weights;
  if (record.size_bytes == 0) return {};
  const uint8_t* weights = data + record.offset;
  if (!has_digest(weights, record.size_bytes, record.digest)) {
    return failure(Code::weights_digest, Section::weights, "the weights don't have the digest of the section table");
  }
  uint64_t end = 0;
  for (const Method& method : methods.all) ALCOVE_TRY(check_padding(weights, method.program, end));
  return {};
}

}  // namespace alcove
