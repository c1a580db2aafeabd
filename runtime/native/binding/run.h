// Runs a session for a call from Python, and returns its outputs as arrays.
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
  // As many runs with these inputs; the times of each, as `_native.pyi` describes them.
  nanobind::object record_timestamps(nanobind::tuple inputs, size_t runs);
  void reset();
  void cancel() noexcept { session_->cancel(); }
  void uncancel() noexcept { session_->uncancel(); }
  [[nodiscard]] uint64_t memory_bytes() const { return session_->memory_bytes(); }

 private:
  void set_inputs(const nanobind::tuple& inputs);

  std::unique_ptr<Session> session_;
};

}  // namespace alcove::binding
