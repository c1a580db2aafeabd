#include "core/session.h"

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "core/ops/ops.h"

namespace alcove {

namespace {

// Round to nearest even, denormals kept, no traps: whatever the host app has set, a run computes the same.
class FloatMode {
 public:
#if defined(__x86_64__)
  FloatMode() noexcept : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~FloatMode() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  FloatMode() noexcept {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
  }
  ~FloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
#error "say here how this processor's rounding and denormal modes are set"
#endif
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  uint64_t saved_;
#endif
};

}  // namespace

Status Session::Hold::busy() noexcept {
  return failure(Code::session_busy, Section::file,
                 "another thread uses this session; make one session for each thread");
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model) {
  const uint64_t bytes = session_bytes(model->program());
  void* memory = std::aligned_alloc(kTensorAlignment, bytes > 0 ? bytes : kTensorAlignment);
  if (memory == nullptr) {
    return failure(Code::out_of_memory, Section::file, "the system gave no %" PRIu64 " bytes for a session", bytes);
  }
  return std::unique_ptr<Session>(new Session(std::move(model), static_cast<uint8_t*>(memory)));
}

#if defined(ALCOVE_SANITIZE)
Result<std::unique_ptr<Session>> Session::create_apart(std::shared_ptr<const Model> model) {
  Result<std::unique_ptr<Session>> created = create(std::move(model));
  if (!created.is_ok()) return created;
  Session& session = *created.value();
  const std::vector<Tensor>& tensors = session.model_->program().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    session.apart_.push_back(std::make_unique<uint8_t[]>(tensors[t].size_bytes));
    uint8_t* block = session.apart_.back().get();
    if (tensors[t].storage == Storage::constant) std::memcpy(block, session.states_[t].data, tensors[t].size_bytes);
    session.states_[t].data = block;
  }
  return created;
}
#endif

Session::Session(std::shared_ptr<const Model> model, uint8_t* memory) : model_(std::move(model)), memory_(memory) {
  const Program& program = model_->program();
  states_ = reinterpret_cast<TensorState*>(memory_);
  uint8_t* arena = memory_ + (session_bytes(program) - program.arena_bytes);
  std::memset(arena, 0, program.arena_bytes);
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    // Constants are only ever read; one type of state keeps the run loop small.
    uint8_t* data = tensor.storage == Storage::constant ? const_cast<uint8_t*>(model_->constant(tensor))
                                                        : arena + tensor.offset;
    new (&states_[t]) TensorState{data, tensor.rank > 0 ? tensor.dims[0] : 0};
  }
}

Session::~Session() { std::free(memory_); }

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

Status Session::set_tensor(size_t port, DType dtype, const uint64_t* dims, size_t rank, const void* data) noexcept {
  ALCOVE_TRY(check_port(port, false));
  const uint32_t index = model_->program().inputs[port].tensor;
  const Tensor& tensor = model_->program().tensors[index];
  if (dtype != tensor.dtype) {
    return failure(Code::input_dtype, Section::file, "expected %s, got %s", dtype_name(tensor.dtype), dtype_name(dtype))
        .at_port(port);
  }
  if (rank != tensor.rank) {
    return failure(Code::input_shape, Section::file, "expected %u dimensions, got %zu", tensor.rank, rank).at_port(port);
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

Status Session::run() noexcept {
  const Program& program = model_->program();
  const size_t count = program.inputs.size();
  const uint64_t all = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  if (set_ != all) {
    size_t missing = 0;
    while ((set_ >> missing & 1) != 0) ++missing;
    return failure(Code::input_count, Section::file, "it was not set before the run").at_port(missing);
  }
  set_ = 0;  // the plan may give an input's bytes to others
  has_outputs_ = false;
  const FloatMode mode;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const ops::Call call = {program, op, states_, model_->kernels(), model_->checks_indices(i)};
    if (Status status = ops::run_rule(op.code)(call); !status.is_ok()) return status.in_op(i);
  }
  has_outputs_ = true;
  return {};
}

const uint8_t* Session::output(size_t port) const noexcept {
  return states_[model_->program().outputs[port].tensor].data;
}

uint64_t Session::output_extent(size_t port) const noexcept {
  return states_[model_->program().outputs[port].tensor].extent;
}

}  // namespace alcove
