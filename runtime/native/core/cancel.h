// How a run is stopped from another thread: a flag of its session, which the run looks at between operators, between the pieces of
// an operator that takes long, and in front of every matrix product that an operator is made of.
//
// What is skipped leaves any bytes in the arena; nobody reads them, because the run that was stopped ends with `run_cancelled`.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/dispatch.h"

namespace alcove {

// Multiply-adds of a dense product from one look at the flag to the next: about 10 milliseconds of vector code.  Smaller products
// are not divided.
inline constexpr uint64_t kPollWork = 1ull << 28;

// Makes the calling thread look at `flag`, for as long as this lives; null: at none.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>* flag) noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  const std::atomic<bool>* const before_;
};

// The flag that this thread looks at, for the threads that help it; null: none.
[[nodiscard]] const std::atomic<bool>* watched_flag() noexcept;
// Whether the run that this thread works for is to stop.
[[nodiscard]] bool is_run_cancelled() noexcept;

// The same kernels, but that products look at the flag, and do nothing once it is set.  To be called once in a process.
[[nodiscard]] kernels::KernelTable with_polls(const kernels::KernelTable& table) noexcept;

}  // namespace alcove
