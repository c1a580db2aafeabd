// Runs the threads that help a session's own: they wait for an op whose outputs are worth sharing out; each computes some of them.
//
//   caller:  publish the job ─▶ compute part 0 ─▶ wait until the others are done
//   helper:  wait for a job that has a part for it ─▶ compute it ─▶ say so
//
// Who computes an output changes no bit of it: an output is the work of one thread, in the order in which one thread would do
// it.  Parts are fixed by the sizes alone; nothing is stolen.  A run allocates nothing.
//
// Helpers look for the next job for some microseconds, then they sleep; between runs they sleep.  In the child of a fork there
// are no helpers: is_here() is false, the session runs alone, and what the pool has allocated stays with the child.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/status.h"

namespace alcove {

// Of a session.  Layers of mobile models are too small for more.
inline constexpr uint32_t kMaxThreads = 16;

// A part is worth a thread if it takes so many multiply-adds of a dense product: about 5 microseconds, what it costs to
// wake a thread that sleeps. In a trial on two cores larger parts gained less on small images.
inline constexpr uint64_t kPartWork = 1u << 18;

class Pool {
 public:
  struct End {
    void operator()(Pool* pool) const noexcept;
  };
  using Handle = std::unique_ptr<Pool, End>;

  // `threads` counts the caller: 2 to kMaxThreads.  Fails if the system gives no threads.  Throws nothing but std::bad_alloc.
  static Result<Handle> create(uint32_t threads, uint64_t part_work);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] uint32_t threads() const noexcept { return threads_; }
  // Whether this is the process that has the threads.
  [[nodiscard]] bool is_here() const noexcept;
  // Helpers' parts have `stride` bytes each.
  void set_scratch(uint8_t* scratch, uint64_t stride) noexcept {
    scratch_ = scratch;
    stride_ = stride;
  }
  // Of a helper's part: 1 to threads - 1.
  [[nodiscard]] uint8_t* scratch(size_t part) const noexcept { return scratch_ + (part - 1) * stride_; }

  // In how many parts to compute `units` that cannot be divided, if all of them take so much work.
  [[nodiscard]] size_t parts(size_t units, uint64_t work) const noexcept {
    const uint64_t worth = work / part_work_;
    const size_t most = units < threads_ ? units : threads_;
    return worth < most ? (worth < 1 ? 1 : static_cast<size_t>(worth)) : most;
  }

  using Part = void(const void* job, size_t part) noexcept;
  // Calls `part` with 0 to parts - 1, each in a thread of its own.  One caller at a time; parts is at most threads().
  void run(size_t parts, Part* part, const void* job) noexcept;

 private:
  explicit Pool(uint32_t threads, uint64_t part_work) noexcept;
  static void* help(void* helper) noexcept;
  [[nodiscard]] uint64_t next_job(uint64_t seen) noexcept;

  const uint32_t threads_;
  const uint64_t part_work_;
  const int64_t process_;
  const bool spins_;  // whether each thread has a core
  uint8_t* scratch_ = nullptr;
  uint64_t stride_ = 0;
  // Of the system's own kind: those of the standard library throw, and bring a library of messages.
  struct Helper {
    Pool* pool;
    size_t index;
    pthread_t thread;
  };
  uint32_t helper_count_ = 0;
  Helper helpers_[kMaxThreads - 1];

  // What is to be done: written before the job is published, and not again before its parts are done.
  Part* part_ = nullptr;
  const void* job_ = nullptr;
  // Number of the job in the upper bits, its parts in the lowest 8, so that a helper that has no part reads nothing else.
  alignas(64) std::atomic<uint64_t> published_ = 0;
  alignas(64) std::atomic<uint32_t> undone_ = 0;  // parts of helpers
  // Who sleeps; looked at after publishing, so that nobody is missed and a mutex is taken only to wake.
  alignas(64) std::atomic<uint32_t> sleepers_ = 0;
  std::atomic<bool> caller_sleeps_ = false;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t jobs_ = PTHREAD_COND_INITIALIZER, done_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace alcove
