#include "binding/run.h"

#include <cstring>
#include <string>
#include <vector>

#include <nanobind/ndarray.h>

#include "binding/raise.h"
#include "binding/text.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

// 0: no type that a program knows.
DType dtype_of(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (code == nb::dlpack::dtype_code::Float && type.bits == 32) return DType::f32;
  if (code == nb::dlpack::dtype_code::Bool) return DType::boolean;
  if (code == nb::dlpack::dtype_code::UInt && type.bits == 8) return DType::u8;
  if (code == nb::dlpack::dtype_code::Int && type.bits == 8) return DType::i8;
  if (code == nb::dlpack::dtype_code::Int && type.bits == 32) return DType::i32;
  if (code == nb::dlpack::dtype_code::Int && type.bits == 64) return DType::i64;
  return DType{0};
}

// Of a type that no program knows; the number of bits follows it.
const char* kind_name(nb::dlpack::dtype type) {
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int:
      return "int";
    case nb::dlpack::dtype_code::UInt:
      return "uint";
    case nb::dlpack::dtype_code::Float:
      return "float";
    case nb::dlpack::dtype_code::Complex:
      return "complex";
    case nb::dlpack::dtype_code::Bfloat:
      return "bfloat";
    default:
      return "type of bits: ";
  }
}

nb::dlpack::dtype type_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return nb::dtype<int8_t>();
    case DType::i32:
      return nb::dtype<int32_t>();
    case DType::i64:
      return nb::dtype<int64_t>();
    case DType::u8:
      return nb::dtype<uint8_t>();
    case DType::boolean:
      return nb::dtype<bool>();
    default:
      return nb::dtype<float>();
  }
}

// What a caller gave for an input; keeps a contiguous array alive.
struct Given {
  std::string_view text;
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array;
  DType dtype;
  uint64_t dims[kMaxRank];
};

Status take_array(const Tensor& tensor, size_t port, nb::handle object, Given& given) {
  if (!nb::try_cast(object, given.array)) {
    // An array that is none to us has foreign bytes or objects for elements.
    std::string seen = Py_TYPE(object.ptr())->tp_name;
    if (nb::hasattr(object, "dtype")) {
      const nb::object type = object.attr("dtype");
      seen = std::string("one of ") + nb::str(type).c_str();
    }
    return failure(Code::input_dtype, Section::file, "expected an array of %s, got %.100s", dtype_name(tensor.dtype),
                   seen.c_str())
        .at_port(port);
  }
  given.dtype = dtype_of(given.array.dtype());
  if (given.dtype != tensor.dtype) {
    // float64 and the like: never cast in silence.
    const bool is_known = given.dtype != DType{0};
    const std::string seen = is_known ? dtype_name(given.dtype)
                                      : kind_name(given.array.dtype()) + std::to_string(given.array.dtype().bits);
    return failure(Code::input_dtype, Section::file, "expected %s, got %s", dtype_name(tensor.dtype), seen.c_str())
        .at_port(port);
  }
  if (given.array.ndim() > kMaxRank) {
    return failure(Code::input_shape, Section::file, "expected %u dimensions, got %zu", tensor.rank, given.array.ndim())
        .at_port(port);
  }
  for (size_t d = 0; d < given.array.ndim(); ++d) given.dims[d] = given.array.shape(d);
  return {};
}

nb::object output_array(const Session& session, size_t port) {
  const Tensor& tensor = session.program().tensors[session.model().program().outputs[port].tensor];
  size_t shape[kMaxRank];
  size_t bytes = dtype_bytes(tensor.dtype);
  for (uint8_t d = 0; d < tensor.rank; ++d) {
    shape[d] = d == 0 ? session.output_extent(port) : tensor.dims[d];
    bytes *= shape[d];
  }
  auto* copy = new uint8_t[bytes > 0 ? bytes : 1];
  std::memcpy(copy, session.output(port), bytes);
  const nb::capsule owner(copy, [](void* data) noexcept { delete[] static_cast<uint8_t*>(data); });
  return nb::cast(nb::ndarray<nb::numpy>(copy, tensor.rank, shape, owner, nullptr, type_of(tensor.dtype)));
}

}  // namespace

nb::list NativeSession::call(nb::args inputs) {
  const Session::Hold hold(*session_);
  if (!hold.is_held()) raise(Session::Hold::busy());
  const Program& program = session_->model().program();
  if (inputs.size() != program.inputs.size()) {
    raise(failure(Code::input_count, Section::file, "the program takes %zu input%s, got %zu", program.inputs.size(),
                  program.inputs.size() == 1 ? "" : "s", inputs.size()));
  }
  // Sizes may come from several inputs: all are known before the first is copied.
  std::vector<Given> given(inputs.size());
  for (size_t port = 0; port < inputs.size(); ++port) {
    const Tensor& tensor = program.tensors[program.inputs[port].tensor];
    if (tensor.dtype == DType::text) {
      check(text_view(inputs[port], port, given[port].text), &program);
    } else {
      check(take_array(tensor, port, inputs[port], given[port]), &program);
      check(session_->set_dims(port, given[port].dims, given[port].array.ndim()), &program);
    }
  }
  for (size_t port = 0; port < inputs.size(); ++port) {
    const Given& g = given[port];
    if (program.tensors[program.inputs[port].tensor].dtype == DType::text) {
      check(session_->set_text(port, reinterpret_cast<const uint8_t*>(g.text.data()), g.text.size()), &program);
    } else {
      check(session_->set_tensor(port, g.dtype, g.dims, g.array.ndim(), g.array.data()), &program);
    }
  }
  Status status;
  {
    nb::gil_scoped_release free_threads;
    status = session_->run();
  }
  check(status, &program);
  nb::list outputs;
  for (size_t port = 0; port < program.outputs.size(); ++port) outputs.append(output_array(*session_, port));
  return outputs;
}

void NativeSession::reset() {
  const Session::Hold hold(*session_);
  if (!hold.is_held()) raise(Session::Hold::busy());
  session_->reset();
}

}  // namespace alcove::binding
