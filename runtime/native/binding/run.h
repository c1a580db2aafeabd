// Runs a session for a call from Python, and returns its outputs as arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include "core/session.h"

namespace alcove::binding {

class NativeSession {
 public:
  NativeSession(std::unique_ptr<Session> session, size_t method) : session_(std::move(session)), method_(method) {}

  // Takes str or bytes for texts and numpy arrays for the rest; returns a list of numpy arrays of their own.  Runs the method of the
  // model that made it.
  nanobind::list call(nanobind::args inputs);
  // The same of a method by its name.
  nanobind::list run(const std::string& method, const nanobind::tuple& inputs);
  // As many runs with these inputs; the times of each, as `_native.pyi` describes them.
  nanobind::object record_timestamps(nanobind::tuple inputs, size_t runs, std::optional<std::string> method);
  void reset();
  void cancel() noexcept { session_->cancel(); }
  void uncancel() noexcept { session_->uncancel(); }
  [[nodiscard]] uint64_t memory_bytes() const { return session_->memory_bytes(); }

 private:
  nanobind::list run_method(size_t method, const nanobind::tuple& inputs);
  [[nodiscard]] size_t find(const std::string& method) const;
  void set_inputs(const nanobind::tuple& inputs);

  std::unique_ptr<Session> session_;
  size_t method_;
};

}  // namespace alcove::binding
