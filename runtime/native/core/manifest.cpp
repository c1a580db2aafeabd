// The op table and the element types, made from the manifest's lines.
#include <cstddef>
#include <string_view>

#include "core/program.h"

namespace alcove {

namespace {

constexpr uint8_t count_attributes(std::string_view text) {
  uint8_t count = 0;
  for (char c : text) count = static_cast<uint8_t>(count + (c == ':' ? 1 : 0));
  return count;
}

// All names and attributes, one after the other.
struct Texts {
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) \
  char name[sizeof(#name)];                                                         \
  char attributes_of_##name[sizeof(attributes)];
#include "kernels/manifest.inc"
};
constexpr Texts kTexts = {
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing) #name, attributes,
#include "kernels/manifest.inc"
};
static_assert(sizeof(Texts) <= UINT16_MAX);

const char* text_at(uint16_t position) { return reinterpret_cast<const char*>(&kTexts) + position; }

constexpr OpInfo kOps[] = {
#define ALCOVE_OP(code, name, min_inputs, max_inputs, outputs, attributes, sharing)                               \
  {offsetof(Texts, name), offsetof(Texts, attributes_of_##name), OpCode::name, min_inputs, max_inputs, outputs, \
   count_attributes(attributes), Sharing::sharing},
#include "kernels/manifest.inc"
};

}  // namespace

const char* OpInfo::name() const noexcept { return text_at(name_at); }
const char* OpInfo::attributes() const noexcept { return text_at(attributes_at); }

const std::vector<OpInfo>& manifest() {
  static const std::vector<OpInfo> ops(std::begin(kOps), std::end(kOps));
  return ops;
}

const OpInfo* op_info(uint16_t code) noexcept {
  for (const OpInfo& op : kOps) {
    if (static_cast<uint16_t>(op.code) == code) return &op;
  }
  return nullptr;
}

const char* sharing_name(Sharing sharing) noexcept {
  static constexpr const char* kNames[] = {"none", "in_place", "alias"};
  return kNames[static_cast<int>(sharing)];
}

const char* dtype_name(DType dtype) noexcept {
  static constexpr char kNames[][9] = {"?",     "float32", "int8", "int32",   "int64",
                                       "uint8", "bool",    "text", "float16", "bfloat16"};
  return kNames[static_cast<int>(dtype)];
}

uint32_t dtype_bytes(DType dtype) noexcept {
  static constexpr uint32_t kBytes[] = {0, 4, 1, 4, 8, 1, 1, 0, 2, 2};
  return kBytes[static_cast<int>(dtype)];
}

}  // namespace alcove
