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
  const Methods& methods = session.model_->methods();
  for (size_t s = 0; s < methods.states.size(); ++s) {
    session.kept_apart_.push_back(std::make_unique<uint8_t[]>(methods.states[s].size_bytes));
    session.kept_[s] = session.kept_apart_[s].get();
  }
  for (size_t m = 0; m < methods.all.size(); ++m) {
    Entry& entry = session.entries_[m];
    const std::vector<State>& states = methods.all[m].program.states;
    entry.apart.resize(methods.all[m].program.tensors.size());
    for (size_t s = 0; s < states.size(); ++s) {
      entry.tensors[states[s].tensor].data = session.kept_[methods.all[m].states[s]];
    }
  }
  session.place_tensors();
  session.reset();
  return created;
}

// A heap block of its own for each tensor; of its size in this run, if it is in the arena.
void Session::place_apart() {
  const std::vector<Tensor>& tensors = program().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::unique_ptr<uint8_t[]>& block = entry_->apart[t];
    if (tensors[t].dtype == DType::text || tensors[t].storage == Storage::state) continue;
    if (tensors[t].storage != Storage::arena && block != nullptr) continue;
    block = std::make_unique<uint8_t[]>(tensors[t].size_bytes);
    if (tensors[t].storage == Storage::constant) {
      const Tensor& tensor = tensors[t];
      std::memcpy(block.get(), model_->constant(tensor),
                  tensor.is_half_in_place() ? tensor.stored_bytes() : tensor.size_bytes);
    }
    entry_->tensors[t].data = block.get();
  }
}
#endif

Session::Session(std::shared_ptr<const Model> model, const SessionOptions& options)
    : model_(std::move(model)),
      memory_limit_bytes_(options.memory_limit_bytes),
      threads_(static_cast<uint64_t>(options.threads)),
      entries_(model_->methods().all.size()),
      kept_(model_->methods().states.size()),
      entry_(entries_.data()) {
  for (size_t m = 0; m < entries_.size(); ++m) {
    const Program& program = model_->program(m);
    Entry& entry = entries_[m];
    entry.is_bound = !program.symbols.empty();
    if (!entry.is_bound) continue;
    entry.bound = copy_to_bind(program);
    entry.values.resize(program.expressions.size());
    std::memcpy(entry.wanted, program.buckets[0].bounds, sizeof(entry.wanted));
  }
}

Session::~Session() = default;

// What one helper takes: the scratch of the op that needs most.
uint64_t Session::helper_bytes(size_t bucket) const noexcept {
  const Program& program = described();
  uint64_t most = 0;
  for (const Op& op : program.ops) {
    if (!ops::splits_scratch(op.code)) continue;
    const uint64_t bytes = program.buckets[bucket].places[op.outputs[1]].size_bytes;
    most = bytes > most ? bytes : most;
  }
  return (most + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// The arena has its cap, so have the widened constants, and the threads theirs: no overflow.
uint64_t Session::bytes_of(size_t bucket) const noexcept {
  const uint64_t helpers = threads_ > 1 ? (threads_ - 1) * helper_bytes(bucket) : 0;
  return fixed_bytes() + described().buckets[bucket].arena_bytes + helpers;
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

// The tables of tensors, the states, and an arena of the first method's smallest bucket at its bounds, where the verifier has seen
// it run.
Status Session::allocate() noexcept {
  const Methods& methods = model_->methods();
  if (bytes_of(0) > memory_limit_bytes_) return too_large(0);
  const uint64_t tables_bytes = kept_bytes(methods) - methods.states_bytes;  // the copies to bind have the rest of them
  memory_ = allocate_zeros(tables_bytes + methods.states_bytes);
  if (memory_ == nullptr) return too_large(0);
  for (size_t s = 0; s < kept_.size(); ++s) kept_[s] = memory_.get() + tables_bytes + methods.states[s].offset;
  uint8_t* table = memory_.get();
  for (size_t m = 0; m < methods.all.size(); ++m) {
    const Program& program = methods.all[m].program;
    TensorState* const tensors = reinterpret_cast<TensorState*>(table);
    table += table_bytes(program);
    for (size_t t = 0; t < program.tensors.size(); ++t) {
      const Tensor& tensor = program.tensors[t];
      uint8_t* data = nullptr;
      // Constants are only ever read; one type of state keeps the run loop small.
      if (tensor.storage == Storage::constant) data = const_cast<uint8_t*>(model_->constant(tensor));
      new (&tensors[t]) TensorState{data, tensor.rank > 0 ? tensor.dims[0] : 0};
    }
    for (size_t s = 0; s < program.states.size(); ++s) {
      tensors[program.states[s].tensor].data = kept_[methods.all[m].states[s]];
    }
    entries_[m].tensors = tensors;
  }
  reset();
  return prepare();
}

// An arena for the method in force, and where its tensors are.
Status Session::prepare() noexcept {
  if (entry_->is_bound && !entry_->has_sizes) return rebind();
  const Status status =
      bytes_of(entry_->bucket) > memory_limit_bytes_ ? too_large(entry_->bucket) : grow(entry_->bucket);
  place_tensors();
  return status;
}

Status Session::select(size_t method) noexcept {
  if (method >= entries_.size()) {
    return failure(Code::input_port, Section::file, "there is no method %zu; the program has %zu", method,
                   entries_.size());
  }
  set_ = 0;
  has_outputs_ = false;
  if (method == at_ && arena_ != nullptr) return {};
  const size_t before = std::exchange(at_, method);
  entry_ = &entries_[at_];
  const Status status = prepare();
  if (status.is_ok()) return status;
  at_ = before;
  entry_ = &entries_[at_];
  place_tensors();
  return status;
}

// The old arena goes first, so that a session never takes more than it says.
Status Session::grow(size_t bucket) noexcept {
  const uint64_t bytes = bytes_of(bucket) - fixed_bytes();
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
  Status status = bind(described(), bucket, entry_->wanted, entry_->values.data(), entry_->bound);
  if (status.is_ok()) status = check_signatures(entry_->bound, model_->writers(at_), entry_->bound.run_cost);
  if (status.is_ok()) return grow(bucket);
  // The program is good, and runs at the bounds of its buckets; it is these sizes that it can't take.
  return failure(Code::input_shape, Section::file, "no program of these sizes: %.180s", status.message);
}

// Either all changes, or nothing but the inputs that were set, which are no longer.
Status Session::rebind() noexcept {
  const Program& program = described();
  Entry& entry = *entry_;
  const size_t bucket = bucket_for(program, entry.wanted);
  has_outputs_ = false;
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    if (program.tensors[program.inputs[port].tensor].dtype != DType::text) set_ &= ~(uint64_t{1} << port);
  }
  const Status status = bind_wanted(bucket);
  if (status.is_ok()) {
    entry.bucket = bucket;
    entry.has_sizes = true;
    std::memcpy(entry.sizes, entry.wanted, sizeof(entry.sizes));
  } else if (entry.has_sizes) {
    std::memcpy(entry.wanted, entry.sizes, sizeof(entry.wanted));
    (void)bind(program, entry.bucket, entry.sizes, entry.values.data(), entry.bound);  // as it was
  }
  place_tensors();
  return status;
}

// Behind the arena of the sizes in force.
void Session::place_scratch() noexcept {
  if (pool_ == nullptr || arena_ == nullptr) return;
  pool_->set_scratch(arena_.get() + described().buckets[entry_->bucket].arena_bytes, helper_bytes(entry_->bucket));
}

// Where each tensor of the arena is, for the sizes in force.
void Session::place_tensors() noexcept {
  place_scratch();
  const Program& bound = program();
  for (size_t t = 0; t < bound.tensors.size(); ++t) {
    const Tensor& tensor = bound.tensors[t];
    if (tensor.storage != Storage::arena || tensor.dtype == DType::text || arena_ == nullptr) continue;
    entry_->tensors[t] = {arena_.get() + tensor.offset, tensor.rank > 0 ? tensor.dims[0] : 0};
  }
#if defined(ALCOVE_SANITIZE)
  if (!entry_->apart.empty()) place_apart();
#endif
}

void Session::reset() noexcept {
  const Methods& methods = model_->methods();
  for (size_t m = 0; m < methods.all.size(); ++m) {
    const Program& program = methods.all[m].program;
    for (const State& state : program.states) {
      const TensorState* const tensors = entries_[m].tensors;
      std::memcpy(tensors[state.tensor].data, tensors[state.initial].data, program.tensors[state.tensor].size_bytes);
    }
  }
}

void Session::update_states() noexcept {
  const Program& program = described();
  for (const State& state : program.states) {
    if (state.update == state.tensor) continue;
    std::memcpy(entry_->tensors[state.tensor].data, entry_->tensors[state.update].data,
                program.tensors[state.tensor].size_bytes);
  }
}

Status Session::check_port(size_t port, bool is_text) const noexcept {
  const Program& program = described();
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
  TensorState& state = entry_->tensors[described().inputs[port].tensor];
  state.data = const_cast<uint8_t*>(text);  // read only
  state.extent = size;
  has_outputs_ = false;
  set_ |= uint64_t{1} << port;
  return {};
}

Status Session::set_dims(size_t port, const uint64_t* dims, size_t rank) noexcept {
  ALCOVE_TRY(check_port(port, false));
  const Program& program = described();
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
    if (symbol.input == port) entry_->wanted[s] = static_cast<uint32_t>(dims[symbol.dim]);
  }
  return {};
}

Status Session::set_tensor(size_t port, DType dtype, const uint64_t* dims, size_t rank, const void* data) noexcept {
  ALCOVE_TRY(check_port(port, false));
  const uint32_t index = described().inputs[port].tensor;
  const Tensor& tensor = program().tensors[index];
  if (dtype != tensor.dtype) {
    return failure(Code::input_dtype, Section::file, "expected %s, got %s", dtype_name(tensor.dtype), dtype_name(dtype))
        .at_port(port);
  }
  ALCOVE_TRY(set_dims(port, dims, rank));
  if (entry_->is_bound &&
      (arena_ == nullptr || std::memcmp(entry_->wanted, entry_->sizes, sizeof(entry_->sizes)) != 0)) {
    if (Status status = rebind(); !status.is_ok()) return status.at_port(port);
  }
  if (arena_ == nullptr) return too_large(entry_->bucket);  // another method took its place and did not fit
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
  TensorState& state = entry_->tensors[index];
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
    if (op.code == OpCode::write_rows)
      ops::restore_rows({program, op, entry_->tensors, model_->kernels(), true, nullptr});
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
  if (arena_ == nullptr) [[unlikely]]
    return too_large(entry_->bucket);
  set_ = 0;  // the plan may give an input's bytes to others
  has_outputs_ = false;
  const FloatMode mode;
  const CancelScope scope(&is_cancelled_);
  Pool* const pool = pool_ != nullptr && pool_->is_here() ? pool_.get() : nullptr;
  if constexpr (kIsProfiled) *timestamps++ = now_ns();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const ops::Call call = {program, op, entry_->tensors, model_->kernels(), model_->checks_indices(at_, i), pool};
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
  return entry_->tensors[described().outputs[port].tensor].data;
}

uint64_t Session::output_extent(size_t port) const noexcept {
  return entry_->tensors[described().outputs[port].tensor].extent;
}

}  // namespace alcove
