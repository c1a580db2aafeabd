#include "fuzz/parts.h"

#include <algorithm>
#include <cstring>

#include "core/ops/ops.h"
#include "core/program.h"
#include "core/sha256.h"

namespace alcove::fuzz {

namespace {

using format::FileHeader;
using format::SectionRecord;

// No input is longer; what a repair would make longer stays as it is.
constexpr uint64_t kMaxWeights = 64u << 10;

uint64_t up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// Reads `count` records; false if they are not there.
template <typename T>
bool take(const uint8_t*& at, const uint8_t* end, uint64_t count, std::vector<T>& records) {
  if (count > static_cast<uint64_t>(end - at) / sizeof(T)) return false;
  records.resize(count);
  if (count != 0) std::memcpy(records.data(), at, count * sizeof(T));
  at += count * sizeof(T);
  return true;
}

template <typename T>
uint64_t bytes_of(const std::vector<T>& records) {
  return records.size() * sizeof(T);
}

template <typename T>
void put(uint8_t*& at, const std::vector<T>& records) {
  if (!records.empty()) std::memcpy(at, records.data(), bytes_of(records));
  at += bytes_of(records);
}

uint64_t program_section_bytes(const Parts& parts) {
  return sizeof(format::ProgramHeader) + bytes_of(parts.tensors) + bytes_of(parts.ops) + bytes_of(parts.inputs) +
         bytes_of(parts.outputs) + bytes_of(parts.labels) + bytes_of(parts.states) + bytes_of(parts.symbols) +
         bytes_of(parts.expressions) + bytes_of(parts.buckets) + bytes_of(parts.places) + bytes_of(parts.strings);
}

void put_program(uint8_t* at, const Parts& parts) {
  format::ProgramHeader header = parts.program;
  header.tensor_count = static_cast<uint32_t>(parts.tensors.size());
  header.op_count = static_cast<uint32_t>(parts.ops.size());
  header.input_count = static_cast<uint32_t>(parts.inputs.size());
  header.output_count = static_cast<uint32_t>(parts.outputs.size());
  header.label_count = static_cast<uint32_t>(parts.labels.size());
  header.state_count = static_cast<uint32_t>(parts.states.size());
  header.symbol_count = static_cast<uint32_t>(parts.symbols.size());
  header.expression_count = static_cast<uint32_t>(parts.expressions.size());
  header.bucket_count = static_cast<uint32_t>(parts.buckets.size());
  header.string_bytes = static_cast<uint32_t>(parts.strings.size());
  std::memcpy(at, &header, sizeof(header));
  at += sizeof(header);
  put(at, parts.tensors);
  put(at, parts.ops);
  put(at, parts.inputs);
  put(at, parts.outputs);
  put(at, parts.labels);
  put(at, parts.states);
  put(at, parts.symbols);
  put(at, parts.expressions);
  put(at, parts.buckets);
  put(at, parts.places);
  put(at, parts.strings);
}

// The sections of a composed program, of which there may be none of a kind: size 0.
struct Sections {
  SectionRecord sections[4];
  uint32_t count;
  uint64_t file_bytes;
};

Sections lay_out(const Parts& parts) {
  Sections result = {{{format::kProgram, format::kCritical, 0, program_section_bytes(parts), {}, {}},
                      {format::kCertificate, 0, 0, parts.certificate.size(), {}, {}},
                      {format::kWeights, format::kCritical, 0, parts.weights.size(), {}, {}},
                      {format::kMethods, format::kCritical, 0, parts.methods.size(), {}, {}}},
                     0,
                     0};
  for (const SectionRecord& section : result.sections) result.count += section.size_bytes == 0 ? 0 : 1;
  result.file_bytes = sizeof(FileHeader) + result.count * sizeof(SectionRecord);
  for (SectionRecord& section : result.sections) {
    if (section.size_bytes == 0) continue;
    section.offset = up(result.file_bytes, section.kind == format::kWeights ? kWeightsAlignment : kSectionAlignment);
    result.file_bytes = section.offset + section.size_bytes;
  }
  return result;
}

bool split_program(const uint8_t* at, const uint8_t* end, Parts& parts) {
  format::ProgramHeader& header = parts.program;
  if (static_cast<size_t>(end - at) < sizeof(header)) return false;
  std::memcpy(&header, at, sizeof(header));
  at += sizeof(header);
  return take(at, end, header.tensor_count, parts.tensors) && take(at, end, header.op_count, parts.ops) &&
         take(at, end, header.input_count, parts.inputs) && take(at, end, header.output_count, parts.outputs) &&
         take(at, end, header.label_count, parts.labels) && take(at, end, header.state_count, parts.states) &&
         take(at, end, header.symbol_count, parts.symbols) &&
         take(at, end, header.expression_count, parts.expressions) &&
         take(at, end, header.bucket_count, parts.buckets) &&
         take(at, end, uint64_t{header.bucket_count} * header.tensor_count, parts.places) &&
         take(at, end, static_cast<uint64_t>(end - at), parts.strings);
}

// What a session keeps for the programs of the METHODS section, whose states are taken to be the first program's; `arena_bytes`
// becomes that of the largest.
uint64_t methods_bytes(const std::vector<uint8_t>& methods, uint64_t& arena_bytes) {
  format::MethodsHeader header;
  if (methods.size() < sizeof(header)) return 0;
  std::memcpy(&header, methods.data(), sizeof(header));
  const uint8_t* const end = methods.data() + methods.size();
  const uint8_t* at = methods.data() + sizeof(header);
  std::vector<format::MethodRecord> records;
  if (!take(at, end, header.count, records)) return 0;
  uint64_t bytes = 0;
  for (const format::MethodRecord& record : records) {
    Parts one;
    if (record.program_bytes > static_cast<uint64_t>(end - at) || !split_program(at, at + record.program_bytes, one))
      break;
    at += record.program_bytes;
    arena_bytes = std::max(arena_bytes, one.program.arena_bytes);
    uint64_t kept = kStateBytes * one.tensors.size();
    if (!one.symbols.empty()) {
      kept += kBoundTensorBytes * one.tensors.size() + kBoundOpBytes * one.ops.size() +
              kBoundExpressionBytes * one.expressions.size() + kBoundInputBytes * one.inputs.size();
    }
    bytes += up(kept, kTensorAlignment);
  }
  return bytes;
}

// Of the first program's constants of 16 bits that something reads as float32.
uint64_t widened_bytes(const Parts& parts) {
  std::vector<bool> is_needed(parts.tensors.size(), false);
  const auto need = [&is_needed](uint32_t tensor) {
    if (tensor < is_needed.size()) is_needed[tensor] = true;
  };
  for (const format::StateRecord& state : parts.states) need(state.initial);
  for (const format::OpRecord& op : parts.ops) {
    for (uint8_t i = 0; i < std::min<uint8_t>(op.input_count, kMaxOpInputs); ++i) {
      if (!ops::reads_halves(static_cast<OpCode>(op.code), i)) need(op.inputs[i]);
    }
  }
  uint64_t bytes = 0;
  for (size_t t = 0; t < parts.tensors.size(); ++t) {
    const format::TensorRecord& tensor = parts.tensors[t];
    const bool is_half =
        tensor.dtype == static_cast<uint8_t>(DType::f16) || tensor.dtype == static_cast<uint8_t>(DType::bf16);
    if (is_needed[t] && is_half && tensor.storage == static_cast<uint8_t>(Storage::constant))
      bytes += up(2 * tensor.size_bytes, kTensorAlignment);
  }
  return bytes;
}

uint64_t size_of(const format::TensorRecord& tensor) {
  uint64_t bytes =
      tensor.dtype <= static_cast<uint8_t>(DType::bf16) ? dtype_bytes(static_cast<DType>(tensor.dtype)) : 1;
  if (tensor.layout == static_cast<uint8_t>(Layout::panel16) && tensor.rank == 2) {
    return up(tensor.dims[0], 16) * (uint64_t{tensor.dims[1]} + 1) * (bytes == 2 ? 2 : sizeof(float));
  }
  for (uint8_t d = 0; d < std::min<uint8_t>(tensor.rank, kMaxRank); ++d) bytes *= tensor.dims[d];
  return bytes;
}

}  // namespace

size_t program_bytes(const uint8_t* data, size_t size) {
  FileHeader header;
  if (size < sizeof(header)) return size;
  std::memcpy(&header, data, sizeof(header));
  return header.file_bytes < size ? static_cast<size_t>(header.file_bytes) : size;
}

bool split(const uint8_t* data, size_t size, Parts& parts) {
  const size_t whole = program_bytes(data, size);
  if (whole < sizeof(FileHeader)) return false;
  std::memcpy(&parts.header, data, sizeof(FileHeader));
  const uint32_t count = parts.header.section_count;
  if (count == 0 || count > kMaxSections || (whole - sizeof(FileHeader)) / sizeof(SectionRecord) < count) return false;
  bool has_program = false;
  parts.certificate.clear();
  parts.weights.clear();
  parts.methods.clear();
  for (uint32_t i = 0; i < count; ++i) {
    SectionRecord section;
    std::memcpy(&section, data + sizeof(FileHeader) + i * sizeof(section), sizeof(section));
    if (section.offset > whole || section.size_bytes > whole - section.offset) return false;
    const uint8_t* start = data + section.offset;
    const uint8_t* end = start + section.size_bytes;
    if (section.kind == format::kProgram) has_program = split_program(start, end, parts);
    if (section.kind == format::kCertificate) parts.certificate.assign(start, end);
    if (section.kind == format::kWeights) parts.weights.assign(start, end);
    if (section.kind == format::kMethods) parts.methods.assign(start, end);
  }
  parts.tail.assign(data + whole, data + size);
  return has_program;
}

size_t composed_bytes(const Parts& parts) { return lay_out(parts).file_bytes + parts.tail.size(); }

void compose(const Parts& parts, uint8_t* out) {
  const Sections layout = lay_out(parts);
  FileHeader header = parts.header;
  header.section_count = layout.count;
  header.file_bytes = layout.file_bytes;
  std::memcpy(out, &header, sizeof(header));
  uint64_t record_at = sizeof(header);
  uint64_t end = sizeof(header) + layout.count * sizeof(SectionRecord);
  for (const SectionRecord& section : layout.sections) {
    if (section.size_bytes == 0) continue;
    std::memcpy(out + record_at, &section, sizeof(section));
    record_at += sizeof(section);
    std::memset(out + end, 0, section.offset - end);
    end = section.offset + section.size_bytes;
    uint8_t* at = out + section.offset;
    if (section.kind == format::kProgram) put_program(at, parts);
    if (section.kind == format::kCertificate) put(at, parts.certificate);
    if (section.kind == format::kWeights) put(at, parts.weights);
    if (section.kind == format::kMethods) put(at, parts.methods);
  }
  reseal(out, end);
  out += end;
  put(out, parts.tail);
}

void repair(Parts& parts, bool replans) {
  uint64_t weights = 0;
  uint64_t states = 0;
  uint64_t arena = 0;
  for (format::TensorRecord& tensor : parts.tensors) {
    const auto storage = static_cast<Storage>(tensor.storage);
    if (storage == Storage::arena && !parts.symbols.empty()) continue;
    tensor.size_bytes = size_of(tensor);
    if (storage == Storage::constant) {
      tensor.offset = up(weights, kTensorAlignment);
      weights = tensor.offset + tensor.size_bytes;
    } else if (storage == Storage::state) {
      tensor.offset = up(states, kTensorAlignment);
      states = tensor.offset + tensor.size_bytes;
    } else if (storage == Storage::arena && tensor.dtype != static_cast<uint8_t>(DType::text)) {
      if (replans) tensor.offset = up(arena, kTensorAlignment);
      arena = std::max(arena, tensor.offset + tensor.size_bytes);
    }
  }
  if (weights <= kMaxWeights) {
    const size_t old = parts.weights.size();
    parts.weights.resize(weights);
    for (size_t i = old; i < weights && old != 0; ++i) parts.weights[i] = parts.weights[i - old];
  }
  uint64_t strings = 0;
  for (const auto& record : parts.tensors) strings += record.name_bytes;
  for (const auto& record : parts.ops) strings += record.source_bytes;
  for (const auto& record : parts.inputs) strings += record.name_bytes;
  for (const auto& record : parts.outputs) strings += record.name_bytes;
  for (const uint32_t bytes : parts.labels) strings += bytes;
  for (const auto& record : parts.states) strings += record.name_bytes;
  for (const auto& record : parts.symbols) strings += record.name_bytes;
  if (strings <= kMaxWeights) parts.strings.resize(strings, 'x');

  uint64_t kept = kStateBytes * parts.tensors.size();
  if (parts.symbols.empty()) {
    parts.program.arena_bytes = up(arena, kTensorAlignment);
  } else {
    kept += kBoundTensorBytes * parts.tensors.size() + kBoundOpBytes * parts.ops.size() +
            kBoundExpressionBytes * parts.expressions.size() + kBoundInputBytes * parts.inputs.size();
    parts.places.resize(parts.buckets.size() * parts.tensors.size());
    for (size_t b = 0; b < parts.buckets.size(); ++b) {
      uint64_t end = 0;
      for (size_t t = 0; t < parts.tensors.size(); ++t) {
        const format::PlaceRecord& place = parts.places[b * parts.tensors.size() + t];
        end = std::max(end, place.offset + place.size_bytes);
      }
      parts.buckets[b].arena_bytes = up(end, kTensorAlignment);
      parts.program.arena_bytes = parts.buckets[b].arena_bytes;
    }
  }
  uint64_t arena_bytes = parts.program.arena_bytes;
  kept = up(kept, kTensorAlignment) + methods_bytes(parts.methods, arena_bytes);
  parts.header.memory_ceiling_bytes = kept + up(states, kTensorAlignment) + widened_bytes(parts) + arena_bytes;
}

void reseal(uint8_t* data, size_t size) {
  FileHeader header;
  if (size < sizeof(header)) return;
  std::memcpy(&header, data, sizeof(header));
  const size_t room = (size - sizeof(header)) / sizeof(SectionRecord);
  const size_t count = std::min<size_t>({header.section_count, room, kMaxSections});
  for (size_t i = 0; i < count; ++i) {
    SectionRecord section;
    uint8_t* at = data + sizeof(header) + i * sizeof(section);
    std::memcpy(&section, at, sizeof(section));
    // Opening leaves the digest of the weights alone.
    if (section.kind == format::kWeights || section.offset > size || section.size_bytes > size - section.offset)
      continue;
    const Digest digest = sha256(data + section.offset, section.size_bytes);
    std::memcpy(section.digest, digest.data(), digest.size());
    std::memcpy(at, &section, sizeof(section));
  }
  uint8_t digested[format::kDigestedHeaderBytes + kMaxSections * sizeof(SectionRecord)];
  std::memcpy(digested, data, format::kDigestedHeaderBytes);
  std::memcpy(digested + format::kDigestedHeaderBytes, data + sizeof(header), count * sizeof(SectionRecord));
  const Digest digest = sha256(digested, format::kDigestedHeaderBytes + count * sizeof(SectionRecord));
  std::memcpy(data + offsetof(FileHeader, digest), digest.data(), digest.size());
}

}  // namespace alcove::fuzz
