// The C interface: convert, call, convert.  Nothing throws across it.
#include "alcove.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "allocator.h"
#include "core/sampling.h"
#include "core/session.h"
#include "core/sizes.h"

struct alcove_model {
  std::shared_ptr<const alcove::Model> model;
  alcove::Allocator allocator;
  size_t method;

  [[nodiscard]] const alcove::Program& program() const noexcept { return model->program(method); }
};

struct alcove_session {
  std::unique_ptr<alcove::Session> session;
  alcove::Allocator allocator;
};

namespace {

using alcove::Status;

thread_local Status last_error;
thread_local const char* last_code = "ok";

alcove_status convert_status(alcove::Kind kind) {
  switch (kind) {
    case alcove::Kind::ok: return ALCOVE_OK;
    case alcove::Kind::program: return ALCOVE_BAD_PROGRAM;
    case alcove::Kind::input: return ALCOVE_BAD_INPUT;
    case alcove::Kind::text: return ALCOVE_BAD_TEXT;
    case alcove::Kind::busy: return ALCOVE_BUSY;
    case alcove::Kind::isa: return ALCOVE_BAD_ISA;
    case alcove::Kind::system: return ALCOVE_SYSTEM;
    case alcove::Kind::cancelled: return ALCOVE_CANCELLED;
  }
  return ALCOVE_SYSTEM;
}

alcove_status report(const Status& status) {
  last_error = status;
  last_code = alcove::code_name(status.code);
  return convert_status(alcove::code_kind(status.code));
}

alcove_status bad_call(const char* what) {
  last_error = alcove::failure(alcove::Code::input_port, alcove::Section::file, "%s", what);
  last_code = "bad_call";
  return ALCOVE_BAD_CALL;
}

// Copies what a caller gave, who may know fewer members, or more.  False: it asks for what this library doesn't know.
template <typename Options>
bool read_options(const Options* given, Options& options) {
  if (given == nullptr) return true;
  const size_t size = given->struct_bytes;
  if (size < sizeof(given->struct_bytes)) return false;
  std::memcpy(&options, given, size < sizeof(Options) ? size : sizeof(Options));
  for (size_t i = sizeof(Options); i < size; ++i) {
    if (reinterpret_cast<const unsigned char*>(given)[i] != 0) return false;
  }
  return true;
}

bool read_allocator(const alcove_allocator* given, alcove::Allocator& allocator) {
  alcove_allocator read{};
  if (!read_options(given, read)) return false;
  allocator = {read.context, read.allocate, read.release};
  return given == nullptr || (read.allocate != nullptr && read.release != nullptr);
}

constexpr const char* kBadOptions = "options, or an allocator, that this library doesn't know or that lack a function";

alcove_status open_model(alcove::Bytes bytes, const alcove::Allocator& allocator, alcove_model** model) {
  auto opened = alcove::Model::open(std::move(bytes));
  if (!opened.is_ok()) return report(opened.status());
  *model = new alcove_model{std::move(opened.value()), allocator, 0};
  return ALCOVE_OK;
}

// The core lets the standard library throw for memory only; whatever it is, it ends here.
template <typename Call>
alcove_status guard(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return report(alcove::failure(alcove::Code::out_of_memory, alcove::Section::file, "the system gave no memory"));
  }
}

alcove_status describe(const alcove::Program& program, const std::vector<alcove::Port>& ports, size_t index,
                       alcove_port* result) {
  if (result == nullptr || index >= ports.size()) return bad_call("no such port");
  const alcove::Port& port = ports[index];
  const alcove::Tensor& tensor = program.tensors[port.tensor];
  *result = alcove_port{};
  result->name = port.name.data();
  result->name_bytes = port.name.size();
  result->dtype = static_cast<alcove_dtype>(tensor.dtype);
  result->rank = tensor.rank;
  alcove::dims_range(program, tensor, result->least_dims, result->dims);
  result->is_ragged = tensor.is_ragged ? 1 : 0;
  result->label_count = port.label_count;
  return ALCOVE_OK;
}

template <typename Call>
alcove_status in_session(alcove_session* session, Call call) {
  if (session == nullptr) return bad_call("the session is null");
  const alcove::Session::Hold hold(*session->session);
  if (!hold.is_held()) return report(alcove::Session::Hold::busy());
  const alcove::AllocatorScope scope(session->allocator);
  const Status status = call(*session->session);
  return status.is_ok() ? ALCOVE_OK : report(status);
}

alcove_status check_output(const alcove_session* session, size_t output) {
  if (session == nullptr) return bad_call("the session is null");
  if (output >= session->session->described().outputs.size()) return bad_call("no such output");
  if (!session->session->has_outputs()) return bad_call("there is no output before a run that succeeded");
  return ALCOVE_OK;
}

alcove_status create_session(const alcove_model* model, const alcove::SessionOptions& options,
                             const alcove::Allocator& allocator, alcove_session** session) {
  if (model == nullptr || session == nullptr) return bad_call("model or session is null");
  *session = nullptr;
  return guard([&] {
    const alcove::AllocatorScope scope(allocator);
    auto created = alcove::Session::create(model->model, options);
    if (!created.is_ok()) return report(created.status());
    const Status status = created.value()->select(model->method);
    if (!status.is_ok()) return report(status);
    *session = new alcove_session{std::move(created.value()), allocator};
    return ALCOVE_OK;
  });
}

}  // namespace

uint32_t alcove_abi_version(void) { return ALCOVE_ABI_VERSION; }

const char* alcove_last_error(void) { return last_error.message; }

const char* alcove_last_error_code(void) { return last_code; }

const char* alcove_version(void) { return ALCOVE_VERSION; }

alcove_status alcove_model_open_file(const char* path, alcove_model** model) {
  return alcove_model_open_file_with(path, nullptr, model);
}

alcove_status alcove_model_open_file_with(const char* path, const alcove_model_options* options, alcove_model** model) {
  if (path == nullptr || model == nullptr) return bad_call("path or model is null");
  *model = nullptr;
  alcove_model_options read{};
  alcove::Allocator allocator;
  if (!read_options(options, read) || !read_allocator(read.allocator, allocator)) return bad_call(kBadOptions);
  return guard([&] {
    const alcove::AllocatorScope scope(allocator);
    auto bytes = alcove::Bytes::of_file(path);
    return bytes.is_ok() ? open_model(std::move(bytes.value()), allocator, model) : report(bytes.status());
  });
}

alcove_status alcove_model_open_bytes(const void* data, size_t size, alcove_model** model) {
  return alcove_model_open_bytes_with(data, size, nullptr, model);
}

alcove_status alcove_model_open_bytes_with(const void* data, size_t size, const alcove_model_options* options,
                                           alcove_model** model) {
  if (model == nullptr || (data == nullptr && size > 0)) return bad_call("data or model is null");
  *model = nullptr;
  alcove_model_options read{};
  alcove::Allocator allocator;
  if (!read_options(options, read) || !read_allocator(read.allocator, allocator)) return bad_call(kBadOptions);
  if (size > alcove::kMaxFileBytes) {  // before it is copied
    return report(alcove::failure(alcove::Code::file_too_large, alcove::Section::file,
                                  "the program has %zu bytes, the cap is %llu", size,
                                  static_cast<unsigned long long>(alcove::kMaxFileBytes)));
  }
  return guard([&] {
    const alcove::AllocatorScope scope(allocator);
    return open_model(alcove::Bytes::copy_of(static_cast<const uint8_t*>(data), size), allocator, model);
  });
}

alcove_status alcove_model_verify_weights(const alcove_model* model) {
  if (model == nullptr) return bad_call("the model is null");
  return guard([&] {
    const alcove::AllocatorScope scope(model->allocator);
    const Status status = model->model->check_weights();
    return status.is_ok() ? ALCOVE_OK : report(status);
  });
}

void alcove_model_close(alcove_model* model) { delete model; }

size_t alcove_model_input_count(const alcove_model* model) {
  return model == nullptr ? 0 : model->program().inputs.size();
}

size_t alcove_model_output_count(const alcove_model* model) {
  return model == nullptr ? 0 : model->program().outputs.size();
}

alcove_status alcove_model_input(const alcove_model* model, size_t index, alcove_port* port) {
  if (model == nullptr) return bad_call("the model is null");
  const alcove::Program& program = model->program();
  return guard([&] {
    const alcove::AllocatorScope scope(model->allocator);
    return describe(program, program.inputs, index, port);
  });
}

alcove_status alcove_model_output(const alcove_model* model, size_t index, alcove_port* port) {
  if (model == nullptr) return bad_call("the model is null");
  const alcove::Program& program = model->program();
  return guard([&] {
    const alcove::AllocatorScope scope(model->allocator);
    return describe(program, program.outputs, index, port);
  });
}

alcove_status alcove_model_output_label(const alcove_model* model, size_t output, uint32_t label, const char** text,
                                        size_t* text_bytes) {
  if (model == nullptr || text == nullptr || text_bytes == nullptr) return bad_call("an argument is null");
  const alcove::Program& program = model->program();
  if (output >= program.outputs.size() || label >= program.outputs[output].label_count)
    return bad_call("no such label");
  const std::string_view found = program.labels[program.outputs[output].first_label + label];
  *text = found.data();
  *text_bytes = found.size();
  return ALCOVE_OK;
}

size_t alcove_model_method_count(const alcove_model* model) {
  return model == nullptr ? 0 : model->model->methods().all.size();
}

alcove_status alcove_model_method_name(const alcove_model* model, size_t index, const char** name, size_t* name_bytes) {
  if (model == nullptr || name == nullptr || name_bytes == nullptr) return bad_call("an argument is null");
  if (index >= model->model->methods().all.size()) return bad_call("no such method");
  const std::string_view found = model->model->methods().all[index].name;
  *name = found.data();
  *name_bytes = found.size();
  return ALCOVE_OK;
}

alcove_status alcove_model_method(const alcove_model* model, const char* name, alcove_model** method) {
  if (model == nullptr || name == nullptr || method == nullptr) return bad_call("an argument is null");
  *method = nullptr;
  const size_t found = model->model->find_method(name);
  if (found == model->model->methods().all.size()) return bad_call("no such method");
  return guard([&] {
    const alcove::AllocatorScope scope(model->allocator);
    *method = new alcove_model{model->model, model->allocator, found};
    return ALCOVE_OK;
  });
}

uint64_t alcove_model_memory_ceiling(const alcove_model* model) {
  return model == nullptr ? 0 : model->model->memory_ceiling_bytes();
}

size_t alcove_model_op_count(const alcove_model* model) { return model == nullptr ? 0 : model->program().ops.size(); }

alcove_status alcove_model_op(const alcove_model* model, size_t index, const char** name, const char** source,
                              size_t* source_bytes) {
  if (model == nullptr || name == nullptr || source == nullptr || source_bytes == nullptr)
    return bad_call("an argument is null");
  const alcove::Program& program = model->program();
  if (index >= program.ops.size()) return bad_call("no such operator");
  *name = alcove::op_info(static_cast<uint16_t>(program.ops[index].code))->name();
  *source = program.ops[index].source.data();
  *source_bytes = program.ops[index].source.size();
  return ALCOVE_OK;
}

alcove_status alcove_session_create(const alcove_model* model, alcove_session** session) {
  return alcove_session_create_with(model, nullptr, session);
}

alcove_status alcove_session_create_within(const alcove_model* model, uint64_t memory_limit_bytes,
                                           alcove_session** session) {
  return alcove_session_create_threaded(model, memory_limit_bytes, 1, session);
}

alcove_status alcove_session_create_threaded(const alcove_model* model, uint64_t memory_limit_bytes, uint32_t threads,
                                             alcove_session** session) {
  return create_session(model, {.memory_limit_bytes = memory_limit_bytes, .threads = threads}, {}, session);
}

alcove_status alcove_session_create_with(const alcove_model* model, const alcove_session_options* options,
                                         alcove_session** session) {
  if (session != nullptr) *session = nullptr;
  alcove_session_options read{};
  alcove::Allocator allocator;
  if (!read_options(options, read) || !read_allocator(read.allocator, allocator)) return bad_call(kBadOptions);
  const uint64_t limit = read.memory_limit_bytes > 0 ? read.memory_limit_bytes : UINT64_MAX;
  const uint32_t threads = read.threads > 0 ? read.threads : 1;
  return create_session(model, {.memory_limit_bytes = limit, .threads = threads}, allocator, session);
}

void alcove_session_close(alcove_session* session) { delete session; }

alcove_status alcove_session_set_text(alcove_session* session, size_t input, const char* text, size_t size) {
  if (text == nullptr && size > 0) return bad_call("the text is null");
  return in_session(session, [&](alcove::Session& held) {
    return held.set_text(input, reinterpret_cast<const uint8_t*>(text), size);
  });
}

alcove_status alcove_session_set_tensor(alcove_session* session, size_t input, alcove_dtype dtype, const uint64_t* dims,
                                        size_t rank, const void* data) {
  if (dims == nullptr && rank > 0) return bad_call("dims is null");
  if (data == nullptr && (rank == 0 || dims[0] > 0)) return bad_call("data is null");
  if (dtype < ALCOVE_F32 || dtype > ALCOVE_TEXT) return bad_call("unknown dtype");
  return in_session(session, [&](alcove::Session& held) {
    return held.set_tensor(input, static_cast<alcove::DType>(dtype), dims, rank, data);
  });
}

alcove_status alcove_session_set_dims(alcove_session* session, size_t input, const uint64_t* dims, size_t rank) {
  if (dims == nullptr && rank > 0) return bad_call("dims is null");
  return in_session(session, [&](alcove::Session& held) { return held.set_dims(input, dims, rank); });
}

alcove_status alcove_session_reset(alcove_session* session) {
  return in_session(session, [](alcove::Session& held) {
    held.reset();
    return Status();
  });
}

alcove_status alcove_session_select(alcove_session* session, const char* name) {
  if (session == nullptr || name == nullptr) return bad_call("an argument is null");
  const size_t found = session->session->model().find_method(name);
  if (found == session->session->model().methods().all.size()) return bad_call("no such method");
  return in_session(session, [&](alcove::Session& held) { return held.select(found); });
}

alcove_status alcove_sample_logits(const float* logits, size_t count, const alcove_sampling* sampling, uint64_t draw,
                                   uint32_t* token) {
  if (logits == nullptr || sampling == nullptr || token == nullptr) return bad_call("an argument is null");
  alcove_sampling read{};
  if (!read_options(sampling, read)) return bad_call(kBadOptions);
  const double top_p = read.top_p == 0.0 ? 1.0 : read.top_p;
  return guard([&] {
    const Status status =
        alcove::sample_logits(logits, count, {read.temperature, read.top_k, top_p, read.seed}, draw, *token);
    return status.is_ok() ? ALCOVE_OK : report(status);
  });
}

alcove_status alcove_session_cancel(alcove_session* session) {
  if (session == nullptr) return bad_call("the session is null");
  session->session->cancel();
  return ALCOVE_OK;
}

alcove_status alcove_session_uncancel(alcove_session* session) {
  if (session == nullptr) return bad_call("the session is null");
  session->session->uncancel();
  return ALCOVE_OK;
}

alcove_status alcove_session_run(alcove_session* session) {
  return in_session(session, [](alcove::Session& held) { return held.run(); });
}

alcove_status alcove_session_run_profiled(alcove_session* session, int64_t* timestamps, size_t count) {
  if (session != nullptr && (timestamps == nullptr || count < session->session->timestamp_count())) {
    return bad_call("too little room for the timestamps of a run");
  }
  return in_session(session, [&](alcove::Session& held) { return held.run_profiled(timestamps); });
}

alcove_status alcove_session_output(const alcove_session* session, size_t output, const void** data, uint64_t* extent) {
  if (data == nullptr || extent == nullptr) return bad_call("an argument is null");
  if (const alcove_status status = check_output(session, output); status != ALCOVE_OK) return status;
  *data = session->session->output(output);
  *extent = session->session->output_extent(output);
  return ALCOVE_OK;
}

alcove_status alcove_session_output_dims(const alcove_session* session, size_t output, uint64_t* dims, size_t* rank) {
  if (dims == nullptr || rank == nullptr) return bad_call("an argument is null");
  if (const alcove_status status = check_output(session, output); status != ALCOVE_OK) return status;
  const alcove::Session& held = *session->session;
  const alcove::Tensor& tensor = held.program().tensors[held.described().outputs[output].tensor];
  *rank = tensor.rank;
  for (uint8_t d = 0; d < tensor.rank; ++d) dims[d] = d == 0 ? held.output_extent(output) : tensor.dims[d];
  return ALCOVE_OK;
}
