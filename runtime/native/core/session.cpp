#include "core/session.h"

#include <time.h>

#include <cinttypes>
#include <cstring>
#include <new>
#include <utility>

#include "core/cancel.h"
#include "core/float_mode.h"
#include "core/ops/ops.h"
#include "core/sizes.h"

namespace alcove {

Status Session::Hold::busy() noexcept {
  return failure(Code::session_busy, Section::file,
                 "another thread uses this session; make one session for each thread");
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, const SessionOptions& options) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return failure(Code::thread_count, Section::file, "a session of %" PRId64 " threads; allowed are 1 to %" PRIu32,
                   options.threads, kMaxThreads);
  }
  std::unique_ptr<Session> session(new Session(std::move(model), options));
  ALCOVE_TRY(session->allocate());
  if (options.threads == 1) return session;
  Result<Pool::Handle> pool = Pool::create(static_cast<uint32_t>(options.threads), options.part_work);
  if (!pool.is_ok()) return pool.status();
  session->pool_ = std::move(pool.value());
  session->place_scratch();
  return session;
}

#if defined(ALCOVE_SANITIZE)
Result<std::unique_ptr<Session>> Session::create_apart(std::shared_ptr<const Model> model,
                                                       const SessionOptions& options) {
  Result<std::unique_ptr<Session>> created = create(std::move(model), options);
  if (!created.is_ok()) return created;
  Session& session = *created.value();
  session.apart_.resize(session.program().tensors.size());
  session.place_tensors();
  session.reset();
  return created;
}

// A heap block of its own for each tensor; of its size in this run, if it is in the arena.
void Session::place_apart() {
  const std::vector<Tensor>& tensors = program().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].dtype == DType::text || (tensors[t].storage != Storage::arena && apart_[t] != nullptr)) continue;
    apart_[t] = std::make_unique<uint8_t[]>(tensors[t].size_bytes);
    if (tensors[t].storage == Storage::constant) {
      std::memcpy(apart_[t].get(), model_->constant(tensors[t]), tensors[t].size_bytes);
    }
    states_[t].data = apart_[t].get();
  }
}
#endif

Session::Session(std::shared_ptr<const Model> model, const SessionOptions& options)
    : model_(std::move(model)),
      memory_limit_bytes_(options.memory_limit_bytes),
      threads_(static_cast<uint64_t>(options.threads)),
      is_bound_(!model_->program().symbols.empty()) {
  if (!is_bound_) return;
  const Program& program = model_->program();
  bound_ = copy_to_bind(program);
  values_.resize(program.expressions.size());
  std::memcpy(wanted_, program.buckets[0].bounds, sizeof(wanted_));
}

Session::~Session() = default;

// What one helper takes: the scratch of the op that needs most.
uint64_t Session::helper_bytes(size_t bucket) const noexcept {
  const Program& program = model_->program();
  uint64_t most = 0;
  for (const Op& op : program.ops) {
    if (!ops::splits_scratch(op.code)) continue;
    const uint64_t bytes = program.buckets[bucket].places[op.outputs[1]].size_bytes;
    most = bytes > most ? bytes : most;
  }
  return (most + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// The arena has its cap, the threads theirs: no overflow.
uint64_t Session::bytes_of(size_t bucket) const noexcept {
  const uint64_t helpers = threads_ > 1 ? (threads_ - 1) * helper_bytes(bucket) : 0;
  return session_bytes(model_->program(), bucket) + helpers;
}

Status Session::too_large(size_t bucket) const noexcept {
  const uint64_t bytes = bytes_of(bucket);
  if (bytes > memory_limit_bytes_) {
    return failure(Code::memory_limit, Section::file,
                   "a session of these sizes takes %" PRIu64 " bytes, its limit is %" PRIu64, bytes,
                   memory_limit_bytes_);
  }
  return failure(Code::out_of_memory, Section::file, "the system gave no %" PRIu64 " bytes for a session", bytes);
}

// The table of tensors, the states, and an arena of the smallest bucket at its bounds, where the verifier has seen it run.
Status Session::allocate() noexcept {
  const Program& program = model_->program();
  if (bytes_of(0) > memory_limit_bytes_) return too_large(0);
  const uint64_t bound_bytes = kept_bytes(program) - program.states_bytes;  // the copy to bind has the rest of them
  memory_ = allocate_zeros(bound_bytes + program.states_bytes);
  if (memory_ == nullptr) return too_large(0);
  states_ = reinterpret_cast<TensorState*>(memory_.get());
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    uint8_t* data = nullptr;
    // Constants are only ever read; one type of state keeps the run loop small.
    if (tensor.storage == Storage::constant) data = const_cast<uint8_t*>(model_->constant(tensor));
    if (tensor.storage == Storage::state) data = memory_.get() + bound_bytes + tensor.offset;
    new (&states_[t]) TensorState{data, tensor.rank > 0 ? tensor.dims[0] : 0};
  }
  reset();
  if (is_bound_) return rebind();
  ALCOVE_TRY(grow(0));
  place_tensors();
  return {};
}

// The old arena goes first, so that a session never takes more than it says.
Status Session::grow(size_t bucket) noexcept {
  const uint64_t bytes = bytes_of(bucket) - kept_bytes(model_->program());
  if (arena_ != nullptr && bytes <= arena_capacity_) return {};
  const uint64_t before = std::exchange(arena_capacity_, 0);
  arena_ = nullptr;
  arena_ = allocate_zeros(bytes);
  if (arena_ != nullptr) {
    arena_capacity_ = bytes;
    return {};
  }
  arena_ = before > 0 ? allocate_zeros(before) : nullptr;
  if (arena_ != nullptr) arena_capacity_ = before;
  return too_large(bucket);
}

// The program at the sizes that the inputs ask for.
Status Session::bind_wanted(size_t bucket) noexcept {
  if (bytes_of(bucket) > memory_limit_bytes_) return too_large(bucket);
  Status status = bind(model_->program(), bucket, wanted_, values_.data(), bound_);
  if (status.is_ok()) status = check_signatures(bound_, model_->writers(), bound_.run_cost);
  if (status.is_ok()) return grow(bucket);
  // The program is good, and runs at the bounds of its buckets; it is these sizes that it can't take.
  return failure(Code::input_shape, Section::file, "no program of these sizes: %.180s", status.message);
}

// Either all changes, or nothing but the inputs that were set, which are no longer.
Status Session::rebind() noexcept {
  const Program& program = model_->program();
  const size_t bucket = bucket_for(program, wanted_);
  has_outputs_ = false;
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    if (program.tensors[program.inputs[port].tensor].dtype != DType::text) set_ &= ~(uint64_t{1} << port);
  }
  const Status status = bind_wanted(bucket);
  if (status.is_ok()) {
    bucket_ = bucket;
    std::memcpy(sizes_, wanted_, sizeof(sizes_));
  } else {
    std::memcpy(wanted_, sizes_, sizeof(wanted_));
    (void)bind(program, bucket_, sizes_, values_.data(), bound_);  // as it was
  }
  place_tensors();
  return status;
}

// Behind the arena of the sizes in force.
void Session::place_scratch() noexcept {
  if (pool_ == nullptr || arena_ == nullptr) return;
  pool_->set_scratch(arena_.get() + model_->program().buckets[bucket_].arena_bytes, helper_bytes(bucket_));
}

// Where each tensor of the arena is, for the sizes in force.
void Session::place_tensors() noexcept {
  place_scratch();
  const Program& bound = program();
  for (size_t t = 0; t < bound.tensors.size(); ++t) {
    const Tensor& tensor = bound.tensors[t];
    if (tensor.storage != Storage::arena || tensor.dtype == DType::text || arena_ == nullptr) continue;
    states_[t] = {arena_.get() + tensor.offset, tensor.rank > 0 ? tensor.dims[0] : 0};
  }
#if defined(ALCOVE_SANITIZE)
  if (!apart_.empty()) place_apart();
#endif
}

void Session::reset() noexcept {
  const Program& program = model_->program();
  for (const State& state : program.states) {
    std::memcpy(states_[state.tensor].data, states_[state.initial].data, program.tensors[state.tensor].size_bytes);
  }
}

void Session::update_states() noexcept {
  const Program& program = model_->program();
  for (const State& state : program.states) {
    if (state.update == state.tensor) continue;
    std::memcpy(states_[state.tensor].data, states_[state.update].data, program.tensors[state.tensor].size_bytes);
  }
}

Status Session::check_port(size_t port, bool is_text) const noexcept {
  const Program& program = model_->program();
  if (port >= program.inputs.size()) {
    return failure(Code::input_port, Section::file, "there is no input %zu; the program has %zu", port,
                   program.inputs.size());
  }
  const Tensor& tensor = program.tensors[program.inputs[port].tensor];
  if ((tensor.dtype == DType::text) != is_text) {
    return failure(Code::input_dtype, Section::file, "expected %s, got %s", dtype_name(tensor.dtype),
                   is_text ? "text" : "an array")
        .at_port(port);
  }
  return {};
}

Status Session::set_text(size_t port, const uint8_t* text, size_t size) noexcept {
  ALCOVE_TRY(check_port(port, true));
  TensorState& state = states_[model_->program().inputs[port].tensor];
  state.data = const_cast<uint8_t*>(text);  // read only
  state.extent = size;
  has_outputs_ = false;
  set_ |= uint64_t{1} << port;
  return {};
}

Status Session::set_dims(size_t port, const uint64_t* dims, size_t rank) noexcept {
  ALCOVE_TRY(check_port(port, false));
  const Program& program = model_->program();
  const Tensor& tensor = program.tensors[program.inputs[port].tensor];
  if (rank != tensor.rank) {
    return failure(Code::input_shape, Section::file, "expected %u dimensions, got %zu", tensor.rank, rank)
        .at_port(port);
  }
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const Symbol& symbol = program.symbols[s];
    if (symbol.input != port) continue;
    if (dims[symbol.dim] < symbol.min || dims[symbol.dim] > symbol.max) {
      return failure(Code::input_shape, Section::file,
                     "dimension %" PRIu32 " (%.*s) is %" PRIu64 ", allowed are %" PRIu32 " to %" PRIu32, symbol.dim,
                     static_cast<int>(symbol.name.size()), symbol.name.data(), dims[symbol.dim], symbol.min, symbol.max)
          .at_port(port);
    }
  }
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const Symbol& symbol = program.symbols[s];
    if (symbol.input == port) wanted_[s] = static_cast<uint32_t>(dims[symbol.dim]);
  }
  return {};
}

Status Session::set_tensor(size_t port, DType dtype, const uint64_t* dims, size_t rank, const void* data) noexcept {
  ALCOVE_TRY(check_port(port, false));
  const uint32_t index = model_->program().inputs[port].tensor;
  const Tensor& tensor = program().tensors[index];
  if (dtype != tensor.dtype) {
    return failure(Code::input_dtype, Section::file, "expected %s, got %s", dtype_name(tensor.dtype), dtype_name(dtype))
        .at_port(port);
  }
  ALCOVE_TRY(set_dims(port, dims, rank));
  if (is_bound_ && (arena_ == nullptr || std::memcmp(wanted_, sizes_, sizeof(sizes_)) != 0)) {
    if (Status status = rebind(); !status.is_ok()) return status.at_port(port);
  }
  uint64_t row_bytes = dtype_bytes(dtype);
  for (size_t d = 0; d < rank; ++d) {
    const bool fits = d == 0 && tensor.is_ragged ? dims[d] <= tensor.dims[d] : dims[d] == tensor.dims[d];
    if (!fits) {
      return failure(Code::input_shape, Section::file, "dimension %zu is %" PRIu64 ", expected %s%" PRIu32, d, dims[d],
                     d == 0 && tensor.is_ragged ? "at most " : "", tensor.dims[d])
          .at_port(port);
    }
    if (d > 0) row_bytes *= dims[d];
  }
  TensorState& state = states_[index];
  state.extent = rank > 0 ? dims[0] : 0;
  const uint64_t rows = rank > 0 ? dims[0] : 1;
  has_outputs_ = false;
  if (rows > 0) std::memcpy(state.data, data, rows * row_bytes);
  set_ |= uint64_t{1} << port;
  return {};
}

// Not of the standard library, whose clocks bring its messages along.
static int64_t now_ns() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Status Session::run() noexcept { return run_ops<false>(nullptr); }

Status Session::run_profiled(int64_t* timestamps) noexcept { return run_ops<true>(timestamps); }

// Rows that the first `count` ops have written become what they were.
void Session::restore_states(size_t count) noexcept {
  const Program& program = this->program();
  while (count-- > 0) {
    const Op& op = program.ops[count];
    if (op.code == OpCode::write_rows) ops::restore_rows({program, op, states_, model_->kernels(), true, nullptr});
  }
}

static Status fail_cancelled() noexcept {
  return failure(Code::run_cancelled, Section::file, "the session was cancelled");
}

template <bool kIsProfiled>
Status Session::run_ops(int64_t* timestamps) noexcept {
  const Program& program = this->program();
  const size_t count = program.inputs.size();
  const uint64_t all = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  if (set_ != all) {
    size_t missing = 0;
    while ((set_ >> missing & 1) != 0) ++missing;
    return failure(Code::input_count, Section::file, "it was not set before the run").at_port(missing);
  }
  if (is_cancelled_.load(std::memory_order_relaxed)) [[unlikely]]
    return fail_cancelled();
  set_ = 0;  // the plan may give an input's bytes to others
  has_outputs_ = false;
  const FloatMode mode;
  const CancelScope scope(&is_cancelled_);
  Pool* const pool = pool_ != nullptr && pool_->is_here() ? pool_.get() : nullptr;
  if constexpr (kIsProfiled) *timestamps++ = now_ns();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const ops::Call call = {program, op, states_, model_->kernels(), model_->checks_indices(i), pool};
    Status status = ops::run_rule(op.code)(call);
    if (!status.is_ok()) [[unlikely]] {
      restore_states(i);
      return status.in_op(i);
    }
    // After each, so that no answer is made of what an operator has left out.
    if (is_cancelled_.load(std::memory_order_relaxed)) [[unlikely]] {
      restore_states(i + 1);
      return fail_cancelled().in_op(i);
    }
    if constexpr (kIsProfiled) *timestamps++ = now_ns();
  }
  update_states();
  has_outputs_ = true;
  if constexpr (kIsProfiled) *timestamps = now_ns();
  return {};
}

const uint8_t* Session::output(size_t port) const noexcept {
  return states_[model_->program().outputs[port].tensor].data;
}

uint64_t Session::output_extent(size_t port) const noexcept {
  return states_[model_->program().outputs[port].tensor].extent;
}

}  // namespace alcove
