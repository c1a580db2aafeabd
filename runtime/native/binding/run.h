// How does a call from Python become a run, and its outputs arrays?
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "core/session.h"

namespace alcove::binding {

class NativeSession {
 public:
  explicit NativeSession(std::unique_ptr<Session> session) : session_(std::move(session)) {}

  // Takes str or bytes for texts and numpy arrays for the rest; returns a list of numpy arrays of their own.
  nanobind::list call(nanobind::args inputs);
  void reset();
  [[nodiscard]] uint64_t memory_bytes() const { return session_->memory_bytes(); }

 private:
  std::unique_ptr<Session> session_;
};

}  // namespace alcove::binding
