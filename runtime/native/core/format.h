// The records of a `.alc` file, byte for byte; docs/format.md is the specification.  All numbers are little-endian.
#pragma once

#include <bit>
#include <cstdint>

#include "core/limits.h"

namespace alcove::format {

static_assert(std::endian::native == std::endian::little, "records are read as they lie in the file");

inline constexpr uint8_t kMagic[8] = {0x89, 'A', 'L', 'C', '\r', '\n', 0x1A, '\n'};
inline constexpr uint16_t kMajor = 2;
inline constexpr uint16_t kMinor = 2;

enum SectionKind : uint32_t { kProgram = 1, kCertificate = 2, kWeights = 3, kMethods = 4 };
inline constexpr uint32_t kCritical = 1;   // section flag: a reader that doesn't know the kind must refuse the file
inline constexpr uint32_t kRagged = 1;     // tensor flag
inline constexpr uint16_t kHalfMinor = 2;  // the first minor version with constants of 16 bits

struct FileHeader {
  uint8_t magic[8];
  uint16_t major;
  uint16_t minor;
  uint32_t section_count;
  uint64_t file_bytes;
  uint64_t memory_ceiling_bytes;
  uint8_t digest[32];  // of the 32 bytes before and the section table
};
static_assert(sizeof(FileHeader) == 64);
inline constexpr uint64_t kDigestedHeaderBytes = 32;

struct SectionRecord {
  uint32_t kind;
  uint32_t flags;
  uint64_t offset;
  uint64_t size_bytes;
  uint8_t digest[32];
  uint8_t zero[8];
};
static_assert(sizeof(SectionRecord) == 64);

struct ProgramHeader {
  uint32_t tensor_count;
  uint32_t op_count;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t label_count;
  uint32_t string_bytes;
  uint64_t arena_bytes;  // of the largest bucket
  uint32_t state_count;
  uint32_t symbol_count;  // 0: all sizes are known, and there are no expressions and no buckets
  uint32_t expression_count;
  uint32_t bucket_count;
  uint8_t zero[16];
};
static_assert(sizeof(ProgramHeader) == 64);

struct TensorRecord {
  uint8_t dtype;
  uint8_t storage;
  uint8_t layout;
  uint8_t rank;
  uint32_t flags;
  uint32_t name_bytes;
  uint32_t dynamic_dims;  // bit d: dims[d] is the index of an expression
  uint64_t offset;
  uint64_t size_bytes;
  uint32_t dims[kMaxRank];
};
static_assert(sizeof(TensorRecord) == 64);

struct OpRecord {
  uint16_t code;
  uint8_t input_count;
  uint8_t output_count;
  uint8_t attribute_count;
  uint8_t zero[3];
  uint32_t source_bytes;
  uint32_t attribute_dynamic;  // bit a: attribute a is the index of an expression
  uint32_t inputs[kMaxOpInputs];
  uint32_t outputs[kMaxOpOutputs];
  uint64_t attributes[kMaxOpAttributes];
};
static_assert(sizeof(OpRecord) == 256);

struct PortRecord {
  uint32_t tensor;
  uint32_t name_bytes;
  uint32_t label_count;
  uint32_t zero;
};
static_assert(sizeof(PortRecord) == 16);

struct StateRecord {
  uint32_t tensor;
  uint32_t initial;
  uint32_t update;
  uint32_t name_bytes;
};
static_assert(sizeof(StateRecord) == 16);

struct SymbolRecord {
  uint32_t min;
  uint32_t max;
  uint32_t input;
  uint32_t dim;
  uint32_t name_bytes;
  uint32_t zero;
};
static_assert(sizeof(SymbolRecord) == 24);

struct ExpressionRecord {
  uint8_t kind;
  uint8_t zero[7];
  int64_t a;
  int64_t b;
};
static_assert(sizeof(ExpressionRecord) == 24);

struct BucketRecord {
  uint64_t arena_bytes;
  uint32_t bounds[kMaxSymbols];
};
static_assert(sizeof(BucketRecord) == 72);

// Of one tensor in one bucket.
struct PlaceRecord {
  uint64_t offset;
  uint64_t size_bytes;
};
static_assert(sizeof(PlaceRecord) == 16);

// Of METHODS: then come the records, the programs one after the other, and the names: the first method's, and theirs.
struct MethodsHeader {
  uint32_t count;       // of methods but the first, whose program is the PROGRAM section
  uint32_t name_bytes;  // of the first
  uint8_t zero[8];
};
static_assert(sizeof(MethodsHeader) == 16);

struct MethodRecord {
  uint32_t name_bytes;
  uint32_t zero;
  uint64_t program_bytes;
};
static_assert(sizeof(MethodRecord) == 16);

}  // namespace alcove::format
