#include "binding/raise.h"

#include <cstdlib>
#include <cstring>

namespace nb = nanobind;

namespace alcove::binding {

namespace {

nb::object none_or(int32_t index) { return index < 0 ? nb::object(nb::none()) : nb::object(nb::int_(index)); }

// A message quotes paths and variables, which may be no UTF-8, and may be cut in the middle of a character.
nb::object make_text(const char* text) {
  PyObject* decoded = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal(decoded);
}

nb::object port_name(const Status& status, const Program* program) {
  if (program == nullptr || status.port < 0 || static_cast<size_t>(status.port) >= program->inputs.size()) {
    return nb::none();
  }
  const std::string_view name = program->inputs[static_cast<size_t>(status.port)].name;
  return nb::str(name.data(), name.size());
}

nb::object exception(const nb::module_& errors, const Status& status, const Program* program) {
  const nb::object message = make_text(status.message);
  switch (code_kind(status.code)) {
    case Kind::input: return errors.attr("InputError")(port_name(status, program), message);
    case Kind::text: return errors.attr("InvalidTextError")(port_name(status, program), status.position, message);
    case Kind::cancelled: return errors.attr("RunCancelledError")(message);
    case Kind::busy: return errors.attr("SessionBusyError")(message);
    case Kind::isa: {
      const char* forced = std::getenv("ALCOVE_ISA");
      return errors.attr("IsaError")(make_text(forced == nullptr ? "" : forced), message);
    }
    case Kind::system:
      if (status.code == Code::out_of_memory) return nb::borrow(PyExc_MemoryError)(message);
      // The two-argument form picks FileNotFoundError, PermissionError and the like by itself.
      return nb::borrow(PyExc_OSError)(status.system_error, message);
    case Kind::program:
    case Kind::ok: break;
  }
  return errors.attr("ProgramError")(section_name(status.section), none_or(status.op), none_or(status.tensor),
                                     code_name(status.code), message);
}

}  // namespace

void raise(const Status& status, const Program* program) {
  const nb::module_ errors = nb::module_::import_("alcove.runtime.errors");
  const nb::object error = exception(errors, status, program);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace alcove::binding
