// Defines what a function that can fail returns: a Status, or a Result that holds a value or a Status; no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

namespace alcove {

enum class Code : uint16_t {
  ok = 0,
#define ALCOVE_CODE(name, kind, meaning) name,
#include "core/codes.inc"
};

enum class Kind : uint8_t { ok, program, input, text, busy, isa, system, cancelled };

enum class Section : uint8_t { file, header, table, program, certificate, weights, methods };

[[nodiscard]] const char* code_name(Code code) noexcept;
[[nodiscard]] Kind code_kind(Code code) noexcept;
[[nodiscard]] const char* section_name(Section section) noexcept;

// A value type without allocation, so that it can leave a run.
class [[nodiscard]] Status {
 public:
  Status() noexcept { message[0] = '\0'; }

  [[nodiscard]] bool is_ok() const noexcept { return code == Code::ok; }
  Status& in_op(size_t index) noexcept {
    op = static_cast<int32_t>(index);
    return *this;
  }
  Status& in_tensor(size_t index) noexcept {
    tensor = static_cast<int32_t>(index);
    return *this;
  }
  Status& at_port(size_t index) noexcept {
    port = static_cast<int32_t>(index);
    return *this;
  }

  Code code = Code::ok;
  Section section = Section::file;
  int32_t op = -1;           // index, -1: none
  int32_t tensor = -1;       // index, -1: none
  int32_t port = -1;         // index of an input, -1: none
  int32_t system_error = 0;  // errno, 0: none
  uint64_t position = 0;     // of the first bad byte in a text
  char message[232];         // names the thing, the bound and the value; cut if longer
};

// printf-like.
[[nodiscard]] Status failure(Code code, Section section, const char* format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}         // NOLINT: either converts
  Result(Status status) : content_(std::move(status)) {}  // NOLINT

  [[nodiscard]] bool is_ok() const noexcept { return content_.index() == 0; }
  // Precondition: is_ok().
  [[nodiscard]] T& value() noexcept { return *std::get_if<0>(&content_); }
  // Precondition: !is_ok().
  [[nodiscard]] const Status& status() const noexcept { return *std::get_if<1>(&content_); }

 private:
  std::variant<T, Status> content_;
};

}  // namespace alcove

// Leaves the enclosing function with the status if it is a failure.
#define ALCOVE_TRY(expression)                                    \
  do {                                                            \
    if (::alcove::Status status_ = (expression); !status_.is_ok()) return status_; \
  } while (false)
