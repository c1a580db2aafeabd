#include "binding/run.h"

#include <vector>

#include <nanobind/ndarray.h>

#include "binding/arrays.h"
#include "binding/raise.h"
#include "binding/text.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

// 64 MiB of them.
constexpr size_t kMostMarks = size_t{1} << 23;

// What a caller gave for one input.
struct Given {
  std::string_view text;
  GivenArray array;
};

// Most programs take few inputs: theirs need no memory from the system.
class Inputs {
 public:
  explicit Inputs(size_t count) : many_(count > kFew ? new Given[count] : nullptr), all_(many_ ? many_.get() : few_) {}
  Given& operator[](size_t port) { return all_[port]; }

 private:
  static constexpr size_t kFew = 4;
  Given few_[kFew];
  std::unique_ptr<Given[]> many_;
  Given* all_;
};

}  // namespace

// Precondition: the session is held.
void NativeSession::set_inputs(const nb::tuple& inputs) {
  const Program& program = session_->described();
  if (inputs.size() != program.inputs.size()) {
    raise(failure(Code::input_count, Section::file, "the program takes %zu input%s, got %zu", program.inputs.size(),
                  program.inputs.size() == 1 ? "" : "s", inputs.size()));
  }
  // Sizes may come from several inputs: all are known before the first is copied.
  Inputs given(inputs.size());
  for (size_t port = 0; port < inputs.size(); ++port) {
    const Tensor& tensor = program.tensors[program.inputs[port].tensor];
    if (tensor.dtype == DType::text) {
      check(text_view(inputs[port], port, given[port].text), &program);
    } else {
      GivenArray& array = given[port].array;
      check(array.take(program, port, inputs[port]), &program);
      check(session_->set_dims(port, array.dims(), array.rank()), &program);
    }
  }
  for (size_t port = 0; port < inputs.size(); ++port) {
    const Tensor& tensor = program.tensors[program.inputs[port].tensor];
    if (tensor.dtype == DType::text) {
      const std::string_view text = given[port].text;
      check(session_->set_text(port, reinterpret_cast<const uint8_t*>(text.data()), text.size()), &program);
    } else {
      const GivenArray& array = given[port].array;
      check(session_->set_tensor(port, tensor.dtype, array.dims(), array.rank(), array.data()), &program);
    }
  }
}

size_t NativeSession::find(const std::string& method) const {
  const size_t found = session_->model().find_method(method);
  if (found == session_->model().methods().all.size()) throw nb::key_error(method.c_str());
  return found;
}

nb::list NativeSession::call(nb::args inputs) { return run_method(method_, inputs); }

nb::list NativeSession::run(const std::string& method, const nb::tuple& inputs) {
  return run_method(find(method), inputs);
}

nb::list NativeSession::run_method(size_t method, const nb::tuple& inputs) {
  const Session::Hold hold(*session_);
  if (!hold.is_held()) raise(Session::Hold::busy());
  check(session_->select(method));
  const Program& program = session_->described();
  set_inputs(inputs);
  Status status;
  {
    nb::gil_scoped_release free_threads;
    status = session_->run();
  }
  check(status, &program);
  // The bytes are copied: the session's own are gone with its next run.
  nb::list outputs;
  const Program& bound = session_->program();
  for (size_t port = 0; port < program.outputs.size(); ++port) {
    outputs.append(output_array(bound.tensors[program.outputs[port].tensor], session_->output_extent(port),
                                session_->output(port)));
  }
  return outputs;
}

nb::object NativeSession::record_timestamps(nb::tuple inputs, size_t runs, std::optional<std::string> method) {
  const size_t chosen = method ? find(*method) : method_;
  const Session::Hold hold(*session_);
  if (!hold.is_held()) raise(Session::Hold::busy());
  check(session_->select(chosen));
  const size_t stride = session_->timestamp_count();
  if (runs < 1 || runs > kMostMarks / stride) {
    raise(failure(Code::input_shape, Section::file, "%zu runs; allowed are 1 to %zu of this program", runs,
                  kMostMarks / stride));
  }
  auto* timestamps = new int64_t[runs * stride]();
  nb::capsule owner(timestamps, [](void* memory) noexcept { delete[] static_cast<int64_t*>(memory); });
  for (size_t run = 0; run < runs; ++run) {
    set_inputs(inputs);
    Status status;
    {
      nb::gil_scoped_release free_threads;
      status = session_->run_profiled(timestamps + run * stride);
    }
    check(status, &session_->described());
  }
  const size_t shape[] = {runs, stride};
  return nb::cast(nb::ndarray<nb::numpy, int64_t>(timestamps, 2, shape, owner));
}

void NativeSession::reset() {
  const Session::Hold hold(*session_);
  if (!hold.is_held()) raise(Session::Hold::busy());
  session_->reset();
}

}  // namespace alcove::binding
