// Runs a model in a session: its own memory, one thread at a time.
//
//   set every input ─▶ run ─▶ read outputs        Setting an input again starts over: a run uses up what was set.
//
// A session runs one method of the model at a time, and select() says which: all have the same states, and one arena, as large as
// the largest that was needed.
//
// Memory is allocated at creation; for a program whose sizes come with its inputs, also when an input is set that needs a
// larger arena than any before it.  A run allocates nothing.  States begin as their constants, change when a run has
// succeeded, and live as long as the session.
//
// With threads, large ops are shared out (core/pool.h): the same bits, sooner.  Each thread but the caller's takes as much scratch as
// the op that needs most; that comes on top of the model's memory ceiling.
//
// A caller holds the session (`Hold`) from the first input to the last output; a second thread gets `session_busy`.
#pragma once

#include <atomic>
#include <memory>
#include <new>

#include "core/model.h"
#include "core/memory.h"
#include "core/pool.h"

namespace alcove {

struct SessionOptions {
  uint64_t memory_limit_bytes = UINT64_MAX;
  int64_t threads = 1;             // with the caller's, at most kMaxThreads
  uint64_t part_work = kPartWork;  // for tests: the work that is worth a thread
};

class Session {
 public:
  // Allocates what the smallest sizes take: the model's memory ceiling, if its sizes are known.  Never takes more than the
  // limit: inputs that would are refused.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options = {});

#if defined(ALCOVE_SANITIZE)
  // For the fuzzing driver: every tensor in a heap block of its exact size, so that the sanitizer sees a kernel that goes
  // beyond one.  Must give the answers of create(); if not, the memory plan overlaps.
  static Result<std::unique_ptr<Session>> create_apart(std::shared_ptr<const Model> model,
                                                       const SessionOptions& options = {});
#endif

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // The right to use the session, for as long as this lives; look at is_held() first.
  class Hold {
   public:
    explicit Hold(Session& session) noexcept : session_(session), is_held_(!session.is_busy_.exchange(true)) {}
    ~Hold() {
      if (is_held_) session_.is_busy_.store(false);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    [[nodiscard]] bool is_held() const noexcept { return is_held_; }
    [[nodiscard]] static Status busy() noexcept;

   private:
    Session& session_;
    bool is_held_;
  };

  [[nodiscard]] const Model& model() const noexcept { return *model_; }
  // Makes `method`, an index, the one that inputs are set for and run() runs.  What was set, and outputs, are gone, even where it
  // fails: the system, or the session's limit, has no room for it.
  Status select(size_t method) noexcept;
  // The method in force, as the model has it.
  [[nodiscard]] const Program& described() const noexcept { return model_->program(at_); }
  // The same with the dimensions of the inputs that were set last.
  [[nodiscard]] const Program& program() const noexcept { return entry_->is_bound ? entry_->bound : described(); }
  // What it has allocated, and the widened constants, which it shares with other sessions of the model.
  [[nodiscard]] uint64_t memory_bytes() const noexcept { return fixed_bytes() + arena_capacity_; }

  // Takes a text by reference: the bytes must stay until the run is over.
  Status set_text(size_t port, const uint8_t* text, size_t size) noexcept;
  // Says which dimensions an input will have, before it is set.  Needed where the sizes of a program come from several
  // inputs: new sizes take effect with the next set_tensor(), together, and what was set before is no longer set.
  Status set_dims(size_t port, const uint64_t* dims, size_t rank) noexcept;
  // Copies a tensor in row-major order.  Raggedness: dims[0] may be less than the port's.
  Status set_tensor(size_t port, DType dtype, const uint64_t* dims, size_t rank, const void* data) noexcept;
  // Runs all ops.  Precondition: none; a missing input is an error.  A run that was cancelled has used up the inputs, and changed no
  // state.
  Status run() noexcept;
  // The same, and when: nanoseconds of a steady clock before the first op, after each op, and after the states have changed.
  // `timestamps` has room for timestamp_count(); those of a run that fails are not all written.
  Status run_profiled(int64_t* timestamps) noexcept;
  [[nodiscard]] size_t timestamp_count() const noexcept { return described().ops.size() + 2; }
  // Whether the last run succeeded and no input was set since.
  [[nodiscard]] bool has_outputs() const noexcept { return has_outputs_; }
  // Of an output.  Precondition: has_outputs().
  [[nodiscard]] const uint8_t* output(size_t port) const noexcept;
  // Rows in use of an output's leading dimension.
  [[nodiscard]] uint64_t output_extent(size_t port) const noexcept;
  // States as they were at creation.
  void reset() noexcept;
  // From any thread, at any time: the run at hand ends with `run_cancelled`, and so does every later one until uncancel().  A run that
  // has ended already stays as it ended.
  void cancel() noexcept { is_cancelled_.store(true, std::memory_order_relaxed); }
  void uncancel() noexcept { is_cancelled_.store(false, std::memory_order_relaxed); }

 private:
  // What it keeps of a method.
  struct Entry {
    TensorState* tensors = nullptr;  // one for each tensor
    bool is_bound = false;           // whether the sizes of the method come with its inputs
    bool has_sizes = false;          // whether there are some in force
    Program bound;                   // the program at `sizes`
    std::vector<int64_t> values;     // of expressions
    size_t bucket = 0;
    uint32_t sizes[kMaxSymbols] = {};   // of symbols, in force
    uint32_t wanted[kMaxSymbols] = {};  // of symbols, as the inputs' dimensions say
#if defined(ALCOVE_SANITIZE)
    std::vector<std::unique_ptr<uint8_t[]>> apart;  // empty: tensors lie in the arena
#endif
  };

  Session(std::shared_ptr<const Model> model, const SessionOptions& options);
  // Two of it, so that a run that nobody looks at never asks whether somebody does.
  template <bool kIsProfiled>
  Status run_ops(int64_t* timestamps) noexcept;
  Status allocate() noexcept;
  Status grow(size_t bucket) noexcept;
  [[nodiscard]] uint64_t helper_bytes(size_t bucket) const noexcept;
  // All but the arena.
  [[nodiscard]] uint64_t fixed_bytes() const noexcept {
    return kept_bytes(model_->methods()) + model_->methods().widened_bytes;
  }
  [[nodiscard]] uint64_t bytes_of(size_t bucket) const noexcept;
  Status rebind() noexcept;
  Status bind_wanted(size_t bucket) noexcept;
  Status prepare() noexcept;
  void place_tensors() noexcept;
  void place_scratch() noexcept;
  void update_states() noexcept;
  void restore_states(size_t count) noexcept;
  Status check_port(size_t port, bool is_text) const noexcept;
  [[nodiscard]] Status too_large(size_t bucket) const noexcept;

  std::shared_ptr<const Model> model_;
  uint64_t memory_limit_bytes_;
  uint64_t threads_;
  Memory memory_;  // the tables of tensors, method by method, then the states; aligned to 64
  Memory arena_;   // then the helpers' scratch; none, if the system gave no memory for a larger one
  uint64_t arena_capacity_ = 0;
  std::vector<Entry> entries_;  // of each method
  std::vector<uint8_t*> kept_;  // where each state is that a session keeps
  size_t at_ = 0;               // the method in force
  Entry* entry_ = nullptr;      // that method's
  uint64_t set_ = 0;            // one bit for each input
  bool has_outputs_ = false;
  std::atomic<bool> is_busy_ = false;
  std::atomic<bool> is_cancelled_ = false;
  Pool::Handle pool_;  // none: one thread
#if defined(ALCOVE_SANITIZE)
  void place_apart();
  std::vector<std::unique_ptr<uint8_t[]>> kept_apart_;
#endif
};

}  // namespace alcove
