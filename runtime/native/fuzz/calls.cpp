// Fuzzes sequences of calls of the C interface for crashes, leaks and hangs.  The bytes behind a program say which calls come, with
// handles that may be null, indices and sizes that may be out of range and options that may be nonsense; only what alcove.h
// forbids is left out: pointers that point to less than they say, and handles that were closed.
#include <alcove.h>

#include <cstdlib>
#include <cstring>

#include "fuzz/inputs.h"
#include "fuzz/parts.h"

namespace {

using alcove::fuzz::Choices;

constexpr int kMaxCalls = 64;
constexpr size_t kSlots = 2;

struct Host {
  Choices choices;
  alcove_model* models[kSlots] = {};
  alcove_session* sessions[kSlots] = {};
  std::vector<std::vector<uint8_t>> texts = {};  // must live until the run is over

  size_t index() { return choices.byte() % 8 == 0 ? SIZE_MAX - choices.below(2) : choices.below(4); }
};

void expect_reason(alcove_status status) {
  if (status == ALCOVE_OK) return;
  if (*alcove_last_error() == '\0' || *alcove_last_error_code() == '\0') std::abort();
}

void look_at(Host& host, alcove_model* model) {
  alcove_port port;
  expect_reason(alcove_model_input(model, host.index(), &port));
  expect_reason(alcove_model_output(model, host.index(), &port));
  const char* name = nullptr;
  size_t bytes = 0;
  expect_reason(alcove_model_output_label(model, host.index(), host.choices.byte(), &name, &bytes));
  const char* source = nullptr;
  expect_reason(alcove_model_op(model, host.index(), &name, &source, &bytes));
  expect_reason(alcove_model_verify_weights(model));
  (void)alcove_model_memory_ceiling(model);
  expect_reason(alcove_model_method_name(model, host.index() % (alcove_model_method_count(model) + 1), &name, &bytes));
  alcove_model* method = nullptr;
  expect_reason(alcove_model_method(model, host.choices.byte() % 2 == 0 ? "prefill" : "decode", &method));
  alcove_model_close(method);
}

void create(Host& host, alcove_model* model, alcove_session*& session) {
  if (session != nullptr) return;
  // Sessions of large programs are allowed to take their time, which fuzzing has not.
  if (model != nullptr && alcove_model_memory_ceiling(model) > 2 * alcove::fuzz::kMaxArenaBytes) return;
  switch (host.choices.below(4)) {
    case 0: return expect_reason(alcove_session_create(model, &session));
    case 1:
      return expect_reason(
          alcove_session_create_within(model, uint64_t{host.choices.word()} >> host.choices.below(32), &session));
    case 2: {
      alcove_session_options options = {};
      options.struct_bytes = host.choices.byte() % 4 == 0
                                 ? static_cast<uint32_t>(host.choices.below(sizeof(options) + 1))
                                 : static_cast<uint32_t>(sizeof(options));
      options.threads = host.choices.byte() % 16 == 0 ? host.choices.word() : 1;
      if (options.threads > 1 && options.threads <= ALCOVE_MAX_THREADS) options.threads = 2;
      options.memory_limit_bytes = host.choices.word();
      return expect_reason(alcove_session_create_with(model, &options, &session));
    }
    default: return expect_reason(alcove_session_create_with(model, nullptr, &session));
  }
}

// As the port says, or nearly.
void set(Host& host, alcove_model* model, alcove_session* session) {
  const size_t index = host.index();
  alcove_port port = {};
  if (alcove_model_input(model, index, &port) != ALCOVE_OK) port.rank = static_cast<uint32_t>(host.choices.below(4));
  uint64_t dims[ALCOVE_MAX_RANK] = {};
  alcove::Checked bytes = 8;
  for (uint32_t d = 0; d < port.rank; ++d) {
    dims[d] = host.choices.byte() % 4 != 0   ? port.dims[d]
              : host.choices.byte() % 2 != 0 ? port.least_dims[d]
                                             : host.choices.byte();
    bytes = bytes * dims[d];
  }
  if (!bytes.is_at_most(alcove::fuzz::kMaxArenaBytes)) return;
  // C++ knows no value of an enum beyond its bits.
  const auto dtype = host.choices.byte() % 16 == 0 ? static_cast<alcove_dtype>(host.choices.below(8)) : port.dtype;
  if (dtype == ALCOVE_TEXT || host.choices.byte() % 32 == 0) {
    host.texts.emplace_back(host.choices.byte());
    host.choices.fill(alcove::DType::text, host.texts.back());
    auto& text = host.texts.back();
    return expect_reason(
        alcove_session_set_text(session, index, reinterpret_cast<const char*>(text.data()), text.size()));
  }
  if (host.choices.byte() % 4 == 0) expect_reason(alcove_session_set_dims(session, index, dims, port.rank));
  std::vector<uint8_t> data(bytes.value() + 8);
  host.choices.fill(static_cast<alcove::DType>(port.dtype), data);
  expect_reason(alcove_session_set_tensor(session, index, dtype, dims, port.rank, data.data()));
}

void read(Host& host, alcove_session* session) {
  const size_t index = host.index();
  const void* data = nullptr;
  uint64_t extent = 0;
  uint64_t dims[ALCOVE_MAX_RANK] = {};
  size_t rank = 0;
  const alcove_status status = alcove_session_output(session, index, &data, &extent);
  expect_reason(status);
  expect_reason(alcove_session_output_dims(session, index, dims, &rank));
  if (status == ALCOVE_OK && data == nullptr) std::abort();
}

void call(Host& host, const uint8_t* program, size_t bytes) {
  alcove_model*& model = host.models[host.choices.below(kSlots)];
  alcove_session*& session = host.sessions[host.choices.below(kSlots)];
  switch (host.choices.below(12)) {
    case 0:
      if (model == nullptr) expect_reason(alcove_model_open_bytes(program, bytes, &model));
      return;
    case 1: return look_at(host, model);
    case 2:
    case 3: return create(host, model, session);
    case 4:
    case 5:
    case 6: return set(host, model, session);
    case 7:
    case 8: return expect_reason(alcove_session_run(session));
    case 9: {
      std::vector<int64_t> timestamps(host.choices.below(40));
      return expect_reason(alcove_session_run_profiled(session, timestamps.data(), timestamps.size()));
    }
    case 10: return read(host, session);
    default:
      if (host.choices.byte() % 4 == 0) {
        alcove_model_close(model);
        model = nullptr;
      } else if (host.choices.byte() % 2 == 0) {
        alcove_session_close(session);
        session = nullptr;
      } else if (host.choices.byte() % 4 == 0) {
        expect_reason(alcove_session_cancel(session));
      } else if (host.choices.byte() % 2 == 0) {
        expect_reason(alcove_session_uncancel(session));
      } else if (host.choices.byte() % 2 == 0) {
        expect_reason(alcove_session_select(session, host.choices.byte() % 2 == 0 ? "prefill" : "decode"));
      } else {
        expect_reason(alcove_session_reset(session));
      }
  }
}

}  // namespace

extern "C" {
bool fuzz_has_tail = true;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t whole = alcove::fuzz::program_bytes(data, size);
  auto model = alcove::Model::open(alcove::Bytes::copy_of(data, whole));
  if (!model.is_ok()) {
    alcove_model* none = nullptr;
    if (alcove_model_open_bytes(data, whole, &none) == ALCOVE_OK || none != nullptr) std::abort();
    return 0;
  }
  for (const alcove::Method& method : model.value()->methods().all) {
    if (!alcove::fuzz::is_small(method.program)) return 0;
  }
  Host host{.choices = Choices(data + whole, size - whole)};
  expect_reason(alcove_model_open_bytes(data, whole, &host.models[0]));
  for (int i = 0; i < kMaxCalls && host.choices.are_left(); ++i) call(host, data, whole);
  for (alcove_model* each : host.models) alcove_model_close(each);
  for (alcove_session* each : host.sessions) alcove_session_close(each);
  return 0;
}
}
