// Who runs a model?  A session: its own arena, one thread at a time, nothing allocated after creation.
//
//   set every input ─▶ run ─▶ read outputs        Setting an input again starts over: a run uses up what was set.
//
// A caller holds the session (`Hold`) from the first input to the last output; a second thread gets `session_busy`.
#pragma once

#include <atomic>
#include <memory>

#include "core/model.h"

namespace alcove {

class Session {
 public:
  // Allocates the model's memory ceiling, once.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model);

#if defined(ALCOVE_SANITIZE)
  // For the fuzzing driver: every tensor in a heap block of its exact size, so that the sanitizer sees a kernel that goes
  // beyond one.  Must give the answers of create(); if not, the memory plan overlaps.
  static Result<std::unique_ptr<Session>> create_apart(std::shared_ptr<const Model> model);
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

  // Takes a text by reference: the bytes must stay until the run is over.
  Status set_text(size_t port, const uint8_t* text, size_t size) noexcept;
  // Copies a tensor in row-major order.  Raggedness: dims[0] may be less than the port's.
  Status set_tensor(size_t port, DType dtype, const uint64_t* dims, size_t rank, const void* data) noexcept;
  // Runs all ops.  Precondition: none; a missing input is an error.
  Status run() noexcept;
  // Whether the last run succeeded and no input was set since.
  [[nodiscard]] bool has_outputs() const noexcept { return has_outputs_; }
  // Of an output.  Precondition: has_outputs().
  [[nodiscard]] const uint8_t* output(size_t port) const noexcept;
  // Rows in use of an output's leading dimension.
  [[nodiscard]] uint64_t output_extent(size_t port) const noexcept;

 private:
  Session(std::shared_ptr<const Model> model, uint8_t* memory);
  Status check_port(size_t port, bool is_text) const noexcept;

  std::shared_ptr<const Model> model_;
  uint8_t* memory_;      // states, then the arena; aligned to 64
  TensorState* states_;  // one for each tensor
  uint64_t set_ = 0;     // one bit for each input
  bool has_outputs_ = false;
  std::atomic<bool> is_busy_ = false;
#if defined(ALCOVE_SANITIZE)
  std::vector<std::unique_ptr<uint8_t[]>> apart_;
#endif
};

}  // namespace alcove
