// The runtime for hosts in C++17: alcove.h with handles that close themselves, and errors that are thrown.  Header only; it adds
// nothing to the library, so that no type of C++ crosses it.
//
//   auto model = alcove::Model::open_file("model.alc");
//   auto session = model.session();
//   session.set_text(0, "Wo ist der Bahnhof?");
//   session.run();
//   const alcove::Output top = session.output(1);         // a view: valid until an input is set or the session ends
//   std::string_view label = model.label(1, top.values<int64_t>()[0]);
//
// Threads: as alcove.h says.  A Model may be used by many, a Session by one at a time.
#ifndef ALCOVE_HPP
#define ALCOVE_HPP

#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alcove.h"

namespace alcove {

// A call failed.  what() says why; status() and code() are for programs.
class Error : public std::runtime_error {
 public:
  explicit Error(alcove_status status)
      : std::runtime_error(alcove_last_error()), status_(status), code_(alcove_last_error_code()) {}
  [[nodiscard]] alcove_status status() const noexcept { return status_; }
  // A name that stays, such as "header_digest".
  [[nodiscard]] const std::string& code() const noexcept { return code_; }

 private:
  alcove_status status_;
  std::string code_;
};

inline void check(alcove_status status) {
  if (status != ALCOVE_OK) throw Error(status);
}

inline std::size_t dtype_bytes(alcove_dtype dtype) noexcept {
  switch (dtype) {
    case ALCOVE_F32:
    case ALCOVE_I32: return 4;
    case ALCOVE_I64: return 8;
    case ALCOVE_I8:
    case ALCOVE_U8:
    case ALCOVE_BOOL: return 1;
    default: return 0;
  }
}

// An input or output of a model; the name lives as long as the model.
struct Port {
  std::string_view name;
  alcove_dtype dtype;
  std::vector<std::uint64_t> dims;  // the greatest
  std::vector<std::uint64_t> least_dims;
  bool is_ragged;
  std::uint32_t label_count;
};

// What a run gave: memory of the session, in row-major order.
struct Output {
  const void* data;
  alcove_dtype dtype;
  std::vector<std::uint64_t> dims;

  [[nodiscard]] std::size_t count() const noexcept {
    std::size_t all = 1;
    for (const std::uint64_t dim : dims) all *= static_cast<std::size_t>(dim);
    return all;
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return count() * dtype_bytes(dtype); }
  // Precondition: T is as large as the dtype.
  template <typename T>
  [[nodiscard]] const T* values() const noexcept {
    return static_cast<const T*>(data);
  }
};

// The token that `sampling` chooses from logits with random bits number `draw`.
[[nodiscard]] inline std::uint32_t sample_logits(const float* logits, std::size_t count, alcove_sampling sampling,
                                                 std::uint64_t draw) {
  sampling.struct_bytes = sizeof(sampling);
  std::uint32_t token = 0;
  check(alcove_sample_logits(logits, count, &sampling, draw, &token));
  return token;
}

// One operator of a model; both texts live as long as the model.
struct Op {
  std::string_view name;
  std::string_view source;  // the line that asked for it, "file.py:12"; may be empty
};

class Model;

class Session {
 public:
  // Takes a text by reference: it must live until the run is over.
  void set_text(std::size_t input, std::string_view text) {
    check(alcove_session_set_text(get(), input, text.data(), text.size()));
  }
  void set_dims(std::size_t input, const std::vector<std::uint64_t>& dims) {
    check(alcove_session_set_dims(get(), input, dims.data(), dims.size()));
  }
  // Copies row-major data.
  void set_tensor(std::size_t input, alcove_dtype dtype, const std::vector<std::uint64_t>& dims, const void* data) {
    check(alcove_session_set_tensor(get(), input, dtype, dims.data(), dims.size(), data));
  }
  void run() { check(alcove_session_run(get())); }
  // The same; returns nanoseconds: of each operator, in order, and at the end of keeping what a model keeps from run to run.
  [[nodiscard]] std::vector<std::int64_t> run_profiled() {
    std::vector<std::int64_t> timestamps(op_count_ + 2);
    check(alcove_session_run_profiled(get(), timestamps.data(), timestamps.size()));
    std::adjacent_difference(timestamps.begin(), timestamps.end(), timestamps.begin());
    timestamps.erase(timestamps.begin());
    return timestamps;
  }
  [[nodiscard]] Output output(std::size_t index) const {
    Output result{};
    std::uint64_t dims[ALCOVE_MAX_RANK] = {}, extent = 0;
    std::size_t rank = 0;
    check(alcove_session_output(get(), index, &result.data, &extent));
    check(alcove_session_output_dims(get(), index, dims, &rank));
    result.dims.assign(dims, dims + rank);
    result.dtype = dtypes_[index];
    return result;
  }
  // Makes a method the one that inputs are set for and that runs; `model` is its handle, Model::method().
  void select(const std::string& name, const Model& model);
  // From any thread: the run at hand, and every later one until uncancel(), throws Error with ALCOVE_CANCELLED.
  void cancel() noexcept { (void)alcove_session_cancel(get()); }
  void uncancel() noexcept { (void)alcove_session_uncancel(get()); }
  // States as they were at creation.
  void reset() { check(alcove_session_reset(get())); }
  [[nodiscard]] alcove_session* get() const noexcept { return handle_.get(); }

 private:
  friend class Model;
  struct Close {
    void operator()(alcove_session* session) const noexcept { alcove_session_close(session); }
  };
  Session(alcove_session* handle, std::vector<alcove_dtype> dtypes, std::size_t op_count)
      : handle_(handle), dtypes_(std::move(dtypes)), op_count_(op_count) {}

  std::unique_ptr<alcove_session, Close> handle_;
  std::vector<alcove_dtype> dtypes_;  // of outputs
  std::size_t op_count_;
};

class Model {
 public:
  // Both verify the program, and throw Error where it is none.
  static Model open_file(const std::string& path, const alcove_allocator* allocator = nullptr) {
    const alcove_model_options options = {sizeof(alcove_model_options), allocator};
    alcove_model* handle = nullptr;
    check(alcove_model_open_file_with(path.c_str(), &options, &handle));
    return Model(handle);
  }
  static Model open_bytes(const void* data, std::size_t size, const alcove_allocator* allocator = nullptr) {
    const alcove_model_options options = {sizeof(alcove_model_options), allocator};
    alcove_model* handle = nullptr;
    check(alcove_model_open_bytes_with(data, size, &options, &handle));
    return Model(handle);
  }

  // Owns its memory; stays valid when the model is gone.
  [[nodiscard]] Session session(std::uint32_t threads = 1, std::uint64_t memory_limit_bytes = 0,
                                const alcove_allocator* allocator = nullptr) const {
    const alcove_session_options options = {sizeof(alcove_session_options), threads, memory_limit_bytes, allocator};
    alcove_session* handle = nullptr;
    check(alcove_session_create_with(get(), &options, &handle));
    return Session(handle, output_dtypes(), op_count());
  }
  [[nodiscard]] std::size_t input_count() const noexcept { return alcove_model_input_count(get()); }
  [[nodiscard]] std::size_t output_count() const noexcept { return alcove_model_output_count(get()); }
  [[nodiscard]] Port input(std::size_t index) const {
    alcove_port port{};
    check(alcove_model_input(get(), index, &port));
    return described(port);
  }
  [[nodiscard]] Port output(std::size_t index) const {
    alcove_port port{};
    check(alcove_model_output(get(), index, &port));
    return described(port);
  }
  // The name of an index that an output holds; lives as long as the model.
  [[nodiscard]] std::string_view label(std::size_t output, std::int64_t index) const {
    const char* text = nullptr;
    std::size_t bytes = 0;
    const std::uint32_t known = index < 0 || index > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(index);
    check(alcove_model_output_label(get(), output, known, &text, &bytes));
    return {text, bytes};
  }
  [[nodiscard]] std::size_t op_count() const noexcept { return alcove_model_op_count(get()); }
  // In the order in which they run.
  [[nodiscard]] Op op(std::size_t index) const {
    const char *name = nullptr, *source = nullptr;
    std::size_t bytes = 0;
    check(alcove_model_op(get(), index, &name, &source, &bytes));
    return {name, {source, bytes}};
  }
  [[nodiscard]] std::size_t method_count() const noexcept { return alcove_model_method_count(get()); }
  // Lives as long as the model.
  [[nodiscard]] std::string_view method_name(std::size_t index) const {
    const char* name = nullptr;
    std::size_t bytes = 0;
    check(alcove_model_method_name(get(), index, &name, &bytes));
    return {name, bytes};
  }
  // The model with another of its methods: ports, operators, and where sessions begin.
  [[nodiscard]] Model method(const std::string& name) const {
    alcove_model* handle = nullptr;
    check(alcove_model_method(get(), name.c_str(), &handle));
    return Model(handle);
  }
  [[nodiscard]] std::uint64_t memory_ceiling_bytes() const noexcept { return alcove_model_memory_ceiling(get()); }
  void verify_weights() const { check(alcove_model_verify_weights(get())); }
  [[nodiscard]] alcove_model* get() const noexcept { return handle_.get(); }

 private:
  struct Close {
    void operator()(alcove_model* model) const noexcept { alcove_model_close(model); }
  };
  friend class Session;
  explicit Model(alcove_model* handle) : handle_(handle) {}
  [[nodiscard]] std::vector<alcove_dtype> output_dtypes() const {
    std::vector<alcove_dtype> dtypes;
    for (std::size_t i = 0; i < output_count(); ++i) dtypes.push_back(output(i).dtype);
    return dtypes;
  }
  static Port described(const alcove_port& port) {
    return {{port.name, port.name_bytes},
            port.dtype,
            {port.dims, port.dims + port.rank},
            {port.least_dims, port.least_dims + port.rank},
            port.is_ragged != 0,
            port.label_count};
  }

  std::unique_ptr<alcove_model, Close> handle_;
};

inline void Session::select(const std::string& name, const Model& model) {
  check(alcove_session_select(get(), name.c_str()));
  dtypes_ = model.output_dtypes();
  op_count_ = model.op_count();
}

}  // namespace alcove

#endif
