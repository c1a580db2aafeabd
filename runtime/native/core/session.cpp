#include "core/session.h"

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

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

template <typename T>
T* as(const TensorState& state) noexcept {
  return reinterpret_cast<T*>(state.data);
}

Status check_ids(const int32_t* ids, uint64_t count, uint32_t rows) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= rows) {
      return failure(Code::input_index, Section::file, "id %" PRIu64 " is %" PRId32 ", allowed are 0 to %" PRIu32, i, ids[i],
                     rows - 1);
    }
  }
  return {};
}

// Says which input a value came from.
Status name_port(const Program& program, uint32_t tensor, Status status) noexcept {
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    if (program.inputs[port].tensor == tensor) status.at_port(port);
  }
  return status;
}

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
    if (Status status = run_op(i); !status.is_ok()) return status.in_op(i);
  }
  has_outputs_ = true;
  return {};
}

Status Session::run_op(size_t index) noexcept {
  const Program& program = model_->program();
  const kernels::KernelTable& kernel = model_->kernels();
  const Op& op = program.ops[index];
  const Tensor& in = program.tensors[op.inputs[0]];
  const TensorState& from = states_[op.inputs[0]];
  TensorState& to = states_[op.outputs[0]];
  switch (op.code) {
    case OpCode::ngram_hash: {
      const kernels::NgramHashParams params = {
          static_cast<int32_t>(op.attributes[0]), static_cast<int32_t>(op.attributes[1]),
          static_cast<uint32_t>(op.attributes[2]), op.attributes[3]};
      const kernels::NgramHashResult result = kernel.ngram_hash_text(
          from.data, from.extent, params, as<int32_t>(to), program.tensors[op.outputs[0]].dims[0]);
      if (result.status != kernels::NgramHashStatus::ok) {
        Status status =
            failure(Code::invalid_text, Section::file, "not valid UTF-8: bad byte at position %zu", result.position);
        status.position = result.position;
        return name_port(program, op.inputs[0], status);
      }
      to.extent = result.count;
      return {};
    }
    case OpCode::embedding_bag: {
      const Tensor& table = program.tensors[op.inputs[1]];
      const int32_t* ids = as<const int32_t>(from);
      if (model_->checks_ids(index)) {
        if (Status status = check_ids(ids, from.extent, table.dims[0]); !status.is_ok()) {
          return name_port(program, op.inputs[0], status);
        }
      }
      const bool is_mean = op.attributes[0] == 1;
      const TensorState& rows = states_[op.inputs[1]];
      if (table.dtype == DType::i8) {
        const float* scale = as<const float>(states_[op.inputs[2]]);
        kernel.embedding_bag_i8(
            {ids, from.extent, as<const int8_t>(rows), scale, table.dims[1], is_mean, as<float>(to)});
      } else {
        kernel.embedding_bag_f32({ids, from.extent, as<const float>(rows), table.dims[1], is_mean, as<float>(to)});
      }
      return {};
    }
    case OpCode::linear: {
      const Tensor& weight = program.tensors[op.inputs[1]];
      kernel.linear_f32({as<const float>(from), as<const float>(states_[op.inputs[1]]), as<float>(to), in.dims[0],
                         weight.dims[0], weight.dims[1]});
      return {};
    }
    case OpCode::relu:
      kernel.relu_f32({as<const float>(from), as<float>(to), in.element_count()});
      return {};
    case OpCode::softmax: {
      const size_t count = in.dims[in.rank - 1];
      kernel.softmax_f32({as<const float>(from), as<float>(to), in.element_count() / count, count});
      return {};
    }
    case OpCode::topk:
      kernel.topk_f32({as<const float>(from), in.dims[1], static_cast<size_t>(op.attributes[0]), as<float>(to),
                       as<int32_t>(states_[op.outputs[1]])});
      return {};
  }
  return {};
}

const uint8_t* Session::output(size_t port) const noexcept {
  return states_[model_->program().outputs[port].tensor].data;
}

uint64_t Session::output_extent(size_t port) const noexcept {
  return states_[model_->program().outputs[port].tensor].extent;
}

}  // namespace alcove
