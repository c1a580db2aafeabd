#include "binding/text.h"

#include <cinttypes>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/ndarray.h>

#include "binding/raise.h"
#include "kernels/microkernels/detokenize/detokenize.h"
#include "kernels/microkernels/ngram_hash/ngram_hash.h"
#include "kernels/microkernels/tokenize/tokenize.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

Status report_lone_surrogate(nb::handle object, size_t port) {
  PyErr_Clear();
  const Py_ssize_t length = PyUnicode_GetLength(object.ptr());
  Py_ssize_t position = 0;
  while (position < length) {
    const Py_UCS4 character = PyUnicode_ReadChar(object.ptr(), position);
    if (character >= 0xD800 && character <= 0xDFFF) break;
    ++position;
  }
  Status status =
      failure(Code::invalid_text, Section::file, "not valid Unicode: lone surrogate at position %zd", position);
  status.position = static_cast<uint64_t>(position);
  return status.at_port(port);
}

kernels::NgramHashParams check_params(int32_t min_order, int32_t max_order, uint32_t buckets, uint64_t seed) {
  const kernels::NgramHashParams params = {min_order, max_order, buckets, seed};
  if (!kernels::is_valid(params)) {
    raise(failure(Code::input_shape, Section::file,
                  "orders %" PRId32 " to %" PRId32 " with %" PRIu32 " buckets; allowed are 1 to %" PRId32
                  " and 1 to 2^31 - 1",
                  min_order, max_order, buckets, kernels::kNgramMaxOrder));
  }
  return params;
}

// Appends the ids of one text to `ids`.
void append_ids(nb::handle text, const kernels::NgramHashParams& params, size_t capacity, std::vector<int32_t>& ids) {
  std::string_view view;
  check(text_view(text, 0, view));
  // A character gives at most one id of each order and its share of a word's: no more than orders + 1 ids, boundaries
  // included twice over.
  const size_t orders = static_cast<size_t>(params.max_order - params.min_order) + 2;
  const size_t room = std::min(capacity, 3 * orders * (view.size() + 1));
  const size_t start = ids.size();
  ids.resize(start + room);
  const kernels::NgramHashResult result =
      kernels::ngram_hash(reinterpret_cast<const uint8_t*>(view.data()), view.size(), params, ids.data() + start, room);
  if (result.status == kernels::NgramHashStatus::invalid_table) {
    raise(failure(Code::token_table, Section::file,
                  "ngram_hash: the table is not one of this operator (docs/format.md)"));
  }
  if (result.status != kernels::NgramHashStatus::ok) {
    Status status =
        failure(Code::invalid_text, Section::file, "not valid UTF-8: bad byte at position %zu", result.position);
    status.position = result.position;
    raise(status);
  }
  ids.resize(start + result.count);
}

template <typename T>
nb::object make_array(const std::vector<T>& values) {
  auto* copy = new T[values.size() + 1];
  std::memcpy(copy, values.data(), values.size() * sizeof(T));
  const nb::capsule owner(copy, [](void* data) noexcept { delete[] static_cast<T*>(data); });
  const size_t shape[1] = {values.size()};
  return nb::cast(nb::ndarray<nb::numpy, T>(copy, 1, shape, owner));
}

}  // namespace

std::string name_type(nb::handle object) {
  return nb::str(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__")).c_str();
}

Status text_view(nb::handle object, size_t port, std::string_view& text) {
  if (PyUnicode_Check(object.ptr())) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (data == nullptr) return report_lone_surrogate(object, port);
    text = {data, static_cast<size_t>(size)};
    return {};
  }
  if (PyBytes_Check(object.ptr())) {
    text = {PyBytes_AsString(object.ptr()), static_cast<size_t>(PyBytes_Size(object.ptr()))};
    return {};
  }
  return failure(Code::input_dtype, Section::file, "expected str or bytes, got %.100s", name_type(object).c_str())
      .at_port(port);
}

nb::object hash_text(nb::object text, int32_t min_order, int32_t max_order, uint32_t buckets, uint64_t seed,
                     size_t capacity, std::optional<nb::bytes> table) {
  kernels::NgramHashParams params = check_params(min_order, max_order, buckets, seed);
  if (table) {
    params.table = reinterpret_cast<const uint8_t*>(table->c_str());
    params.table_size = table->size();
  }
  std::vector<int32_t> ids;
  append_ids(text, params, capacity, ids);
  return make_array(ids);
}

nb::tuple hash_texts(nb::list texts, int32_t min_order, int32_t max_order, uint32_t buckets, uint64_t seed,
                     size_t capacity) {
  const kernels::NgramHashParams params = check_params(min_order, max_order, buckets, seed);
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets = {0};
  offsets.reserve(texts.size() + 1);
  for (nb::handle text : texts) {
    append_ids(text, params, capacity, ids);
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  return nb::make_tuple(make_array(ids), make_array(offsets));
}

nb::tuple tokenize_text(nb::object text, nb::bytes table, size_t capacity, size_t max_bytes) {
  std::string_view view;
  check(text_view(text, 0, view));
  if (capacity > kMaxBagIds || max_bytes < 1 || max_bytes > kMaxBagIds) {
    raise(failure(Code::input_shape, Section::file,
                  "capacity %zu with max_bytes %zu; allowed are 0 to %" PRIu32 " and 1 to %" PRIu32, capacity,
                  max_bytes, kMaxBagIds, kMaxBagIds));
  }
  std::vector<int64_t> ids(capacity);
  // Not set to zero, which would take longer than a short text; with room to begin at a multiple of 64.
  const std::unique_ptr<uint8_t[]> room(new uint8_t[kernels::tokenize_scratch_bytes(max_bytes) + 64]);
  auto* scratch = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(room.get()) + 63) / 64 * 64);
  const kernels::TokenizeResult result = kernels::tokenize({reinterpret_cast<const uint8_t*>(view.data()), view.size(),
                                                            reinterpret_cast<const uint8_t*>(table.c_str()),
                                                            table.size(), max_bytes, scratch, ids.data(), capacity});
  if (result.status == kernels::TokenizeStatus::invalid_table) {
    raise(failure(Code::token_table, Section::file, "tokenize: the table is not one of a tokenizer (docs/format.md)"));
  }
  if (result.status == kernels::TokenizeStatus::invalid_utf8) {
    Status status =
        failure(Code::invalid_text, Section::file, "not valid UTF-8: bad byte at position %zu", result.position);
    status.position = result.position;
    raise(status);
  }
  return nb::make_tuple(make_array(ids), result.count);
}

nb::bytes detokenize_ids(nb::list ids, nb::bytes table) {
  std::vector<int64_t> values;
  for (nb::handle id : ids) values.push_back(nb::cast<int64_t>(id));
  kernels::Detokenize call = {values.data(), values.size(), reinterpret_cast<const uint8_t*>(table.c_str()),
                              table.size(),  nullptr,       0};
  std::vector<uint8_t> bytes(values.size() * 64 + 1);
  kernels::DetokenizeResult result{};
  for (;;) {
    call.bytes = bytes.data();
    call.capacity = bytes.size();
    result = kernels::detokenize(call);
    if (result.status != kernels::DetokenizeStatus::ok || result.needed <= bytes.size()) break;
    bytes.resize(result.needed);
  }
  if (result.status == kernels::DetokenizeStatus::invalid_table) {
    raise(
        failure(Code::token_table, Section::file, "detokenize: the table is not one of a tokenizer (docs/format.md)"));
  }
  if (result.status == kernels::DetokenizeStatus::bad_id) {
    raise(failure(Code::input_index, Section::file, "detokenize: index %zu is %" PRId64 ", allowed are 0 to %zu",
                  result.position, values[result.position], result.vocabulary - 1));
  }
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), result.count);
}

}  // namespace alcove::binding
