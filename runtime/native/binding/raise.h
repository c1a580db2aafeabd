// Raises a Status as a Python exception of alcove.runtime.errors.
#pragma once

#include <nanobind/nanobind.h>

#include "core/model.h"

namespace alcove::binding {

// Precondition: !status.is_ok().  `program` names the port that the status speaks of; null where there is none yet.
[[noreturn]] void raise(const Status& status, const Program* program = nullptr);

inline void check(const Status& status, const Program* program = nullptr) {
  if (!status.is_ok()) raise(status, program);
}

// The value, or the exception.
template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.is_ok()) raise(result.status());
  return std::move(result.value());
}

}  // namespace alcove::binding
