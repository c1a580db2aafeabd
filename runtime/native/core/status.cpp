// Names of codes and sections; formatting of messages.
#include "core/status.h"

#include <cstdarg>
#include <cstdio>

namespace alcove {

const char* code_name(Code code) noexcept {
  switch (code) {
    case Code::ok: return "ok";
#define ALCOVE_CODE(name, kind, meaning) \
  case Code::name:                       \
    return #name;
#include "core/codes.inc"
  }
  return "unknown";
}

Kind code_kind(Code code) noexcept {
  switch (code) {
    case Code::ok: return Kind::ok;
#define ALCOVE_CODE(name, kind, meaning) \
  case Code::name:                       \
    return Kind::kind;
#include "core/codes.inc"
  }
  return Kind::system;
}

const char* section_name(Section section) noexcept {
  static constexpr const char* kNames[] = {"file", "header", "table", "program", "certificate", "weights", "methods"};
  return kNames[static_cast<int>(section)];
}

Status failure(Code code, Section section, const char* format, ...) noexcept {
  Status status;
  status.code = code;
  status.section = section;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(status.message, sizeof(status.message), format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace alcove
