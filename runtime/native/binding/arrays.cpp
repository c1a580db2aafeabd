#include "binding/arrays.h"

#include <cinttypes>
#include <cstring>
#include <string>

#include "binding/text.h"
#include "core/sizes.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

// What is looked up once and lives as long as the process.
struct Numpy {
  PyTypeObject* array;
  PyObject* empty;
  PyObject* dtypes[8];  // by number of DType; numpy keeps one object for each of its own types
  PyObject* dtype_name;
};

const Numpy& numpy() {
  static const Numpy found = [] {
    const nb::module_ module = nb::module_::import_("numpy");
    Numpy made = {};
    made.array = reinterpret_cast<PyTypeObject*>(nb::object(module.attr("ndarray")).release().ptr());
    made.empty = nb::object(module.attr("empty")).release().ptr();
    made.dtype_name = PyUnicode_InternFromString("dtype");
    for (const DType type : {DType::f32, DType::i8, DType::i32, DType::i64, DType::u8, DType::boolean}) {
      made.dtypes[static_cast<size_t>(type)] =
          nb::object(module.attr("dtype")(type == DType::boolean ? "bool" : dtype_name(type))).release().ptr();
    }
    return made;
  }();
  return found;
}

// 0: no type that a program knows.
DType convert_dtype(nb::dlpack::dtype type) {
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
    case nb::dlpack::dtype_code::Int: return "int";
    case nb::dlpack::dtype_code::UInt: return "uint";
    case nb::dlpack::dtype_code::Float: return "float";
    case nb::dlpack::dtype_code::Complex: return "complex";
    case nb::dlpack::dtype_code::Bfloat: return "bfloat";
    default: return "type of bits: ";
  }
}

// str(object).
std::string make_text(const nb::object& object) { return nb::str(object).c_str(); }

// What stands in the way of an array's `__dlpack__`, in its own words; "" if nothing does.
std::string describe_refusal(nb::handle object) {
  try {
    const nb::object device = object.attr("__dlpack_device__")();
    const int kind = nb::cast<int>(nb::object(device[nb::int_(0)]));
    if (kind != nb::device::cpu::value) {
      return "one on device " + make_text(nb::hasattr(object, "device") ? nb::object(object.attr("device")) : device) +
             "; copy it to the processor's memory first";
    }
    (void)object.attr("__dlpack__")();
    return "";
  } catch (const nb::python_error& error) {
    return "one that can't be read: " + make_text(nb::borrow(error.value()));
  } catch (const nb::cast_error&) {
    return "one that names no device";
  }
}

// Why an object is no array to us: it lies elsewhere, it refuses, or its elements are foreign bytes or objects.
std::string describe_kind(nb::handle object) {
  if (nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__") &&
      Py_TYPE(object.ptr()) != numpy().array) {
    const std::string refusal = describe_refusal(object);
    if (!refusal.empty()) return refusal;
  }
  if (nb::hasattr(object, "dtype")) return "one of " + make_text(object.attr("dtype"));
  return name_type(object);
}

// Torch keeps the minus of an imaginary part, as of a conjugate, in a bit that `__dlpack__` leaves out.
bool hides_minus(nb::handle object) {
  if (!nb::hasattr(object, "is_neg")) return false;
  try {
    return nb::bool_(nb::object(object.attr("is_neg")())).is(Py_True);
  } catch (const nb::python_error&) {
    return false;
  }
}

Status too_many_dimensions(const Tensor& tensor, size_t rank) {
  return failure(Code::input_shape, Section::file, "expected %u dimensions, got %zu", tensor.rank, rank);
}

template <size_t item>
void copy_row(uint8_t* to, const uint8_t* from, uint64_t count, int64_t stride) {
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * item, from + static_cast<int64_t>(i) * stride, item);
}

// Copies an array of any strides, in bytes, to row-major order; returns where the copy ends.  Precondition: rank >= 1.
uint8_t* copy_rows(uint8_t* to, const uint8_t* from, const uint64_t* dims, const int64_t* strides, size_t rank,
                   size_t item) {
  if (rank == 1) {
    (item == 1 ? copy_row<1> : item == 4 ? copy_row<4> : copy_row<8>)(to, from, dims[0], strides[0]);
    return to + dims[0] * item;
  }
  for (uint64_t i = 0; i < dims[0]; ++i) {
    to = copy_rows(to, from + static_cast<int64_t>(i) * strides[0], dims + 1, strides + 1, rank - 1, item);
  }
  return to;
}

}  // namespace

Status GivenArray::take(const Program& program, size_t port, nb::handle object) {
  const Tensor& tensor = program.tensors[program.inputs[port].tensor];
  Status status;
  if (!has_buffer(tensor, object)) status = take_any(tensor, object);
  if (status.is_ok()) status = arrange(program, tensor);
  return status.at_port(port);
}

// The common case, an array of numpy's own type with the tensor's elements: a third of the time of the general one.
bool GivenArray::has_buffer(const Tensor& tensor, nb::handle object) {
  const Numpy& known = numpy();
  if (Py_TYPE(object.ptr()) != known.array) return false;
  const nb::object type = nb::steal(PyObject_GetAttr(object.ptr(), known.dtype_name));
  if (type.ptr() != known.dtypes[static_cast<size_t>(tensor.dtype)]) {
    PyErr_Clear();
    return false;
  }
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return false;
  }
  is_buffer_ = true;
  data_ = buffer_.buf;
  rank_ = static_cast<size_t>(buffer_.ndim);
  for (size_t d = 0; d < rank_ && d < kMaxRank; ++d) {
    dims_[d] = static_cast<uint64_t>(buffer_.shape[d]);
    strides_[d] = buffer_.strides[d];
  }
  return true;
}

Status GivenArray::take_any(const Tensor& tensor, nb::handle object) {
  if (hides_minus(object)) {
    return failure(Code::input_dtype, Section::file,
                   "expected an array of %s, got one with torch's negative bit: pass x.resolve_neg()",
                   dtype_name(tensor.dtype));
  }
  if (!nb::try_cast(object, array_)) {
    PyErr_Clear();
    return failure(Code::input_dtype, Section::file, "expected an array of %s, got %.160s", dtype_name(tensor.dtype),
                   describe_kind(object).c_str());
  }
  const DType dtype = convert_dtype(array_.dtype());
  if (dtype != tensor.dtype) {
    // float64 and the like: never cast in silence.
    const std::string seen =
        dtype != DType{0} ? dtype_name(dtype) : kind_name(array_.dtype()) + std::to_string(array_.dtype().bits);
    return failure(Code::input_dtype, Section::file, "expected %s, got %s", dtype_name(tensor.dtype), seen.c_str());
  }
  data_ = array_.data();
  rank_ = array_.ndim();
  for (size_t d = 0; d < rank_ && d < kMaxRank; ++d) {
    dims_[d] = array_.shape(d);
    strides_[d] = array_.stride(d) * static_cast<int64_t>(dtype_bytes(dtype));
  }
  return {};
}

// Copies what doesn't lie row-major.  A view may claim more elements than there is memory: none is copied before its
// dimensions are known to be within the tensor's.
Status GivenArray::arrange(const Program& program, const Tensor& tensor) {
  if (rank_ > kMaxRank) return too_many_dimensions(tensor, rank_);
  const size_t item = dtype_bytes(tensor.dtype);
  uint64_t expected = item;
  bool is_row_major = true;
  for (size_t d = rank_; d-- > 0;) {
    if (dims_[d] == 0) return {};  // nothing is read
    if (dims_[d] == 1) continue;
    is_row_major = is_row_major && static_cast<uint64_t>(strides_[d]) == expected;
    expected *= dims_[d];
  }
  if (is_row_major) return {};
  if (rank_ != tensor.rank) return too_many_dimensions(tensor, rank_);
  uint64_t smallest[kMaxRank], largest[kMaxRank];
  dims_range(program, tensor, smallest, largest);
  size_t bytes = item;
  for (size_t d = 0; d < rank_; ++d) {
    if (dims_[d] > largest[d]) {
      return failure(Code::input_shape, Section::file, "dimension %zu is %" PRIu64 ", expected %s%" PRIu64, d, dims_[d],
                     smallest[d] == largest[d] && !(d == 0 && tensor.is_ragged) ? "" : "at most ", largest[d]);
    }
    bytes *= dims_[d];
  }
  copy_.reset(new uint8_t[bytes]);
  copy_rows(copy_.get(), static_cast<const uint8_t*>(data_), dims_, strides_, rank_, item);
  data_ = copy_.get();
  return {};
}

nb::object output_array(const Tensor& tensor, uint64_t extent, const uint8_t* bytes) {
  const Numpy& known = numpy();
  const nb::object shape = nb::steal(PyTuple_New(tensor.rank));
  if (!shape.is_valid()) throw nb::python_error();
  for (uint8_t d = 0; d < tensor.rank; ++d) {
    PyObject* size = PyLong_FromUnsignedLongLong(d == 0 ? extent : tensor.dims[d]);
    if (size == nullptr) throw nb::python_error();
    if (PyTuple_SetItem(shape.ptr(), d, size) != 0) throw nb::python_error();
  }
  PyObject* const arguments[] = {shape.ptr(), known.dtypes[static_cast<size_t>(tensor.dtype)]};
  nb::object array = nb::steal(PyObject_Vectorcall(known.empty, arguments, 2, nullptr));
  Py_buffer buffer;
  if (!array.is_valid() || PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_WRITABLE) != 0) throw nb::python_error();
  std::memcpy(buffer.buf, bytes, static_cast<size_t>(buffer.len));
  PyBuffer_Release(&buffer);
  return array;
}

}  // namespace alcove::binding
