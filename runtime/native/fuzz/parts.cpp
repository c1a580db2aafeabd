#include "fuzz/parts.h"

#include <algorithm>
#include <cstring>

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
void put(std::vector<uint8_t>& out, const std::vector<T>& records) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(records.data());
  out.insert(out.end(), bytes, bytes + records.size() * sizeof(T));
}

bool split_program(const uint8_t* at, const uint8_t* end, Parts& parts) {
  format::ProgramHeader& header = parts.program;
  if (static_cast<size_t>(end - at) < sizeof(header)) return false;
  std::memcpy(&header, at, sizeof(header));
  at += sizeof(header);
  return take(at, end, header.tensor_count, parts.tensors) && take(at, end, header.op_count, parts.ops) &&
         take(at, end, header.input_count, parts.inputs) && take(at, end, header.output_count, parts.outputs) &&
         take(at, end, header.label_count, parts.labels) && take(at, end, header.state_count, parts.states) &&
         take(at, end, header.symbol_count, parts.symbols) && take(at, end, header.expression_count, parts.expressions) &&
         take(at, end, header.bucket_count, parts.buckets) &&
         take(at, end, uint64_t{header.bucket_count} * header.tensor_count, parts.places) &&
         take(at, end, static_cast<uint64_t>(end - at), parts.strings);
}

uint64_t size_of(const format::TensorRecord& tensor) {
  uint64_t bytes = tensor.dtype <= static_cast<uint8_t>(DType::text) ? dtype_bytes(static_cast<DType>(tensor.dtype)) : 1;
  if (tensor.layout == static_cast<uint8_t>(Layout::panel16) && tensor.rank == 2) {
    return up(tensor.dims[0], 16) * (uint64_t{tensor.dims[1]} + 1) * sizeof(float);
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
  for (uint32_t i = 0; i < count; ++i) {
    SectionRecord section;
    std::memcpy(&section, data + sizeof(FileHeader) + i * sizeof(section), sizeof(section));
    if (section.offset > whole || section.size_bytes > whole - section.offset) return false;
    const uint8_t* start = data + section.offset;
    const uint8_t* end = start + section.size_bytes;
    if (section.kind == format::kProgram) has_program = split_program(start, end, parts);
    if (section.kind == format::kCertificate) parts.certificate.assign(start, end);
    if (section.kind == format::kWeights) parts.weights.assign(start, end);
  }
  parts.tail.assign(data + whole, data + size);
  return has_program;
}

std::vector<uint8_t> compose(const Parts& parts) {
  std::vector<uint8_t> program(sizeof(format::ProgramHeader));
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
  std::memcpy(program.data(), &header, sizeof(header));
  put(program, parts.tensors);
  put(program, parts.ops);
  put(program, parts.inputs);
  put(program, parts.outputs);
  put(program, parts.labels);
  put(program, parts.states);
  put(program, parts.symbols);
  put(program, parts.expressions);
  put(program, parts.buckets);
  put(program, parts.places);
  put(program, parts.strings);

  struct Piece {
    uint32_t kind, flags;
    uint64_t alignment;
    const std::vector<uint8_t>* bytes;
  };
  const Piece pieces[] = {{format::kProgram, format::kCritical, kSectionAlignment, &program},
                          {format::kCertificate, 0, kSectionAlignment, &parts.certificate},
                          {format::kWeights, format::kCritical, kWeightsAlignment, &parts.weights}};
  const auto sections = static_cast<uint32_t>(
      std::count_if(std::begin(pieces), std::end(pieces), [](const Piece& piece) { return !piece.bytes->empty(); }));
  std::vector<uint8_t> out(sizeof(FileHeader) + sections * sizeof(SectionRecord));
  size_t record_at = sizeof(FileHeader);
  for (const Piece& piece : pieces) {
    if (piece.bytes->empty()) continue;
    out.resize(up(out.size(), piece.alignment));
    SectionRecord record = {};
    record.kind = piece.kind;
    record.flags = piece.flags;
    record.offset = out.size();
    record.size_bytes = piece.bytes->size();
    out.insert(out.end(), piece.bytes->begin(), piece.bytes->end());
    std::memcpy(out.data() + record_at, &record, sizeof(record));
    record_at += sizeof(record);
  }
  FileHeader file = parts.header;
  file.section_count = sections;
  file.file_bytes = out.size();
  std::memcpy(out.data(), &file, sizeof(file));
  reseal(out.data(), out.size());
  out.insert(out.end(), parts.tail.begin(), parts.tail.end());
  return out;
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
    const std::vector<uint8_t> old = parts.weights;
    parts.weights.resize(weights);
    for (size_t i = old.size(); i < weights && !old.empty(); ++i) parts.weights[i] = old[i % old.size()];
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
  parts.header.memory_ceiling_bytes =
      up(kept, kTensorAlignment) + up(states, kTensorAlignment) + parts.program.arena_bytes;
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
    if (section.kind == format::kWeights || section.offset > size || section.size_bytes > size - section.offset) continue;
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
