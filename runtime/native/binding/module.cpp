// The Python module `alcove.runtime._native`: convert, call, convert.  `runtime/_native.pyi` describes it.
#include <cstring>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "binding/decoding.h"
#include "binding/machine.h"
#include "binding/run.h"
#include "binding/raise.h"
#include "binding/regions.h"
#include "binding/resample.h"
#include "binding/scratch.h"
#include "binding/text.h"
#include "core/sampling.h"
#include "core/session.h"
#include "core/sizes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace alcove::binding {

namespace {

// Keeps a model for Python, where it is shared by sessions.
struct NativeModel {
  std::shared_ptr<const Model> model;
  size_t method = 0;

  [[nodiscard]] const Program& program() const { return model->program(method); }
};

using Opened = Result<std::shared_ptr<const Model>>;

// `source` gives the bytes; other threads run while they are read and verified.
template <typename Source>
NativeModel open(Source source) {
  Opened model = [&]() -> Opened {
    nb::gil_scoped_release free_threads;
    Result<Bytes> bytes = source();
    if (!bytes.is_ok()) return bytes.status();
    return Model::open(std::move(bytes.value()));
  }();
  return {value_or_raise(std::move(model))};
}

// Keeps a Python object; whoever ends it last, with or without the interpreter's lock.
std::shared_ptr<const void> share(nb::object object) {
  return {object.release().ptr(), [](void* kept) {
            nb::gil_scoped_acquire python;
            nb::handle(static_cast<PyObject*>(kept)).dec_ref();
          }};
}

nb::tuple list_dims(const Tensor& tensor, const uint64_t* values) {
  nb::list dims;
  for (uint8_t d = 0; d < tensor.rank; ++d) dims.append(nb::int_(values[d]));
  return nb::tuple(dims);
}

nb::str make_text(std::string_view text) { return nb::str(text.data(), text.size()); }

// (name, dtype number, greatest shape, is_ragged, labels, least shape) of each port.
nb::list list_ports(const Program& program, const std::vector<Port>& ports) {
  nb::list result;
  for (const Port& port : ports) {
    const Tensor& tensor = program.tensors[port.tensor];
    nb::list labels;
    for (uint32_t i = 0; i < port.label_count; ++i) labels.append(make_text(program.labels[port.first_label + i]));
    uint64_t smallest[kMaxRank], largest[kMaxRank];
    dims_range(program, tensor, smallest, largest);
    result.append(nb::make_tuple(make_text(port.name), static_cast<int>(tensor.dtype), list_dims(tensor, largest),
                                 tensor.is_ragged, nb::tuple(labels), list_dims(tensor, smallest)));
  }
  return result;
}

// (name, type) of each attribute, from the manifest's "name:type ...".
nb::tuple list_attributes(const OpInfo& op) {
  nb::list result;
  std::string_view rest = op.attributes();
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const size_t space = std::min(rest.find(' '), rest.size());
    result.append(
        nb::make_tuple(make_text(rest.substr(0, colon)), make_text(rest.substr(colon + 1, space - colon - 1))));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return nb::tuple(result);
}

nb::list manifest_list() {
  nb::list result;
  for (const OpInfo& op : manifest()) result.append(nb::cast(op));
  return result;
}

nb::list kernel_list() {
  nb::list result;
#define ALCOVE_KERNEL(op, dtype, isa, function) result.append(nb::make_tuple(#op, #dtype, #isa, #function));
#include "kernels/manifest.inc"
  return result;
}

nb::dict list_functions(const std::string& op) {
  nb::dict result;
  if (op == "unary") {
#define ALCOVE_UNARY(number, name, types, result_type) result[#name] = number;
#include "kernels/microkernels/unary/functions.inc"
  } else if (op == "binary") {
#define ALCOVE_BINARY(number, name, types, result_type) result[#name] = number;
#include "kernels/microkernels/binary/functions.inc"
  } else if (op == "special") {
#define ALCOVE_SPECIAL(number, name, operands) result[#name] = number;
#include "kernels/microkernels/special/functions.inc"
  }
  return result;
}

NativeModel method_of(const NativeModel& n, const std::string& name) {
  const size_t found = n.model->find_method(name);
  if (found == n.model->methods().all.size()) throw nb::key_error(name.c_str());
  return {n.model, found};
}

using Logits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

uint32_t choose_token(const Logits& logits, double temperature, uint32_t top_k, double top_p, uint64_t seed,
                      uint64_t draw) {
  uint32_t token = 0;
  check(sample_logits(logits.data(), logits.shape(0), {temperature, top_k, top_p, seed}, draw, token));
  return token;
}

nb::tuple philox_words(const std::vector<uint32_t>& counter, const std::vector<uint32_t>& key) {
  if (counter.size() != 4 || key.size() != 2) throw nb::value_error("a counter has 4 words, a key 2");
  uint32_t out[4];
  philox(counter.data(), key.data(), out);
  return nb::make_tuple(out[0], out[1], out[2], out[3]);
}

using Rows = nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// (row, op, tensor, message) of the first sizes that no run can have, or None.
nb::object first_refused(const NativeModel& n, const Rows& sizes) {
  if (n.program().symbols.size() != sizes.shape(1)) throw nb::value_error("a row must have a size for each symbol");
  Status status;
  size_t row = 0;
  {
    nb::gil_scoped_release free_threads;
    row = n.model->first_refused(n.method, sizes.data(), sizes.shape(0), status);
  }
  if (row == sizes.shape(0)) return nb::none();
  return nb::make_tuple(row, status.op, status.tensor, status.message);
}

nb::bytes digest_bytes(const Digest& digest) {
  return nb::bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Native half of alcove.runtime.";

  nb::class_<OpInfo>(m, "OpInfo")
      .def_prop_ro("code", [](const OpInfo& op) { return static_cast<int>(op.code); })
      .def_prop_ro("name", [](const OpInfo& op) { return op.name(); })
      .def_prop_ro("min_inputs", [](const OpInfo& op) { return op.min_inputs; })
      .def_prop_ro("max_inputs", [](const OpInfo& op) { return op.max_inputs; })
      .def_prop_ro("outputs", [](const OpInfo& op) { return op.outputs; })
      .def_prop_ro("attributes", &list_attributes)
      .def_prop_ro("sharing", [](const OpInfo& op) { return sharing_name(op.sharing); });

  nb::class_<NativeModel>(m, "NativeModel")
      .def_prop_ro("inputs", [](const NativeModel& n) { return list_ports(n.program(), n.program().inputs); })
      .def_prop_ro("outputs", [](const NativeModel& n) { return list_ports(n.program(), n.program().outputs); })
      .def_prop_ro("methods",
                   [](const NativeModel& n) {
                     nb::list names;
                     for (const Method& method : n.model->methods().all) names.append(make_text(method.name));
                     return names;
                   })
      .def_prop_ro("name", [](const NativeModel& n) { return make_text(n.model->methods().all[n.method].name); })
      .def("method", &method_of, "name"_a)
      .def_prop_ro("memory_ceiling_bytes", [](const NativeModel& n) { return n.model->memory_ceiling_bytes(); })
      .def_prop_ro("run_cost", [](const NativeModel& n) { return n.program().run_cost; })
      .def_prop_ro("is_mapped", [](const NativeModel& n) { return n.model->is_mapped(); })
      .def_prop_ro("certificate",
                   [](const NativeModel& n) {
                     const std::vector<uint8_t>& bytes = n.model->certificate();
                     return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                   })
      .def("digest",
           [](const NativeModel& n) {
             Digest digest;
             {
               nb::gil_scoped_release free_threads;
               digest = n.model->digest();
             }
             return digest_bytes(digest);
           })
      .def("verify_weights",
           [](const NativeModel& n) {
             Status status;
             {
               nb::gil_scoped_release free_threads;
               status = n.model->check_weights();
             }
             check(status);
           })
      .def("first_refused", &first_refused, "sizes"_a,
           nb::sig("def first_refused(self, sizes: NDArray[np.uint32]) -> object"))
      .def_prop_ro("states",
                   [](const NativeModel& n) {
                     nb::list names;
                     for (const State& state : n.program().states) names.append(make_text(state.name));
                     return names;
                   })
      .def(
          "session",
          [](const NativeModel& n, std::optional<uint64_t> memory_limit_bytes, int64_t threads, uint64_t part_work) {
            return NativeSession(
                value_or_raise(Session::create(n.model, {.memory_limit_bytes = memory_limit_bytes.value_or(UINT64_MAX),
                                                         .threads = threads,
                                                         .part_work = part_work})),
                n.method);
          },
          "memory_limit_bytes"_a = nb::none(), "threads"_a = 1, "part_work"_a = kPartWork);

  nb::class_<NativeSession>(m, "NativeSession")
      .def("__call__", &NativeSession::call, "inputs"_a)
      .def("record_timestamps", &NativeSession::record_timestamps, "inputs"_a, "runs"_a, "method"_a = nb::none())
      .def("run", &NativeSession::run, "method"_a, "inputs"_a)
      .def("reset", &NativeSession::reset)
      .def("cancel", &NativeSession::cancel)
      .def("uncancel", &NativeSession::uncancel)
      .def_prop_ro("memory_bytes", &NativeSession::memory_bytes);

  m.def(
      "open_file",
      [](nb::bytes path) {
        if (std::strlen(path.c_str()) != path.size()) throw nb::value_error("the path holds a null byte");
        return open([&] { return Bytes::of_file(path.c_str()); });
      },
      "path"_a);
  m.def(
      "open_bytes",
      [](nb::bytes data) {
        const auto* bytes =
            reinterpret_cast<const uint8_t*>(data.c_str());  // 32 behind what malloc gave, which is at 16
        const size_t size = data.size();
        std::shared_ptr<const void> owner = share(std::move(data));
        return open([&] { return Result<Bytes>(Bytes::lent(bytes, size, std::move(owner))); });
      },
      "data"_a);
  m.def("manifest", &manifest_list);
  m.def("kernels", &kernel_list);
  m.def("functions", &list_functions, "op"_a);
  m.def("scratch_bytes", &scratch_bytes, "op"_a, "sizes"_a);
  m.def("isa", [] { return kernels::isa_name(value_or_raise(process_kernels())->isa); });
  m.def("peak_rate", &peak_rate, "dtype"_a, "least_ns"_a);
  m.def("read_rate", &read_rate, "size_bytes"_a, "least_ns"_a);
  m.def("clock_ns", &clock_ns);
  m.def("machine_isas", [] {
    nb::list names;
    for (int i = 0; i < kernels::kIsaCount; ++i) {
      const auto isa = static_cast<kernels::Isa>(i);
      if (kernels::machine_has(isa)) names.append(kernels::isa_name(isa));
    }
    return names;
  });
  m.def(
      "sha256",
      [](nb::bytes data, bool portable) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(data.c_str());
        return digest_bytes(portable ? sha256_portable(bytes, data.size()) : sha256(bytes, data.size()));
      },
      "data"_a, "portable"_a = false);
  m.def(
      "sample_logits", &choose_token, "logits"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a, "draw"_a,
      nb::sig("def sample_logits(logits: NDArray[np.float32], temperature: float, top_k: int, top_p: float, seed: int, "
              "draw: int) -> int"));
  m.def("resample", &resample, "pixels"_a.noconvert(), "row_first"_a.noconvert(), "row_weights"_a.noconvert(),
        "column_first"_a.noconvert(), "column_weights"_a.noconvert(),
        nb::sig("def resample(pixels: NDArray[np.uint8], row_first: NDArray[np.uint32], row_weights: "
                "NDArray[np.float32], column_first: NDArray[np.uint32], column_weights: NDArray[np.float32]) -> "
                "NDArray[np.uint8]"));
  m.def("philox", &philox_words, "counter"_a, "key"_a);
  m.def("ngram_hash", &hash_text, "text"_a, "min_order"_a, "max_order"_a, "buckets"_a, "seed"_a, "capacity"_a,
        "table"_a = nb::none());
  m.def("tokenize", &tokenize_text, "text"_a, "table"_a, "capacity"_a, "max_bytes"_a,
        nb::sig("def tokenize(text: str | bytes, table: bytes, capacity: int, max_bytes: int) -> "
                "tuple[NDArray[np.int64], int]"));
  m.def("detokenize", &detokenize_ids, "ids"_a, "table"_a,
        nb::sig("def detokenize(ids: list[int], table: bytes) -> bytes"));
  m.def("ctc_beam", &decode_beam, "log_probs"_a.noconvert(), "width"_a, "paths"_a, "blank"_a,
        nb::sig("def ctc_beam(log_probs: NDArray[np.float32], width: int, paths: int, blank: int) -> "
                "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]"));
  m.def("connected_components", &find_components, "masks"_a.noconvert(), "connectivity"_a,
        nb::sig("def connected_components(masks: NDArray[np.bool_], connectivity: int) -> "
                "tuple[NDArray[np.int32], NDArray[np.int32]]"));
  m.def("non_maximum_suppression", &suppress_boxes, "boxes"_a.noconvert(), "scores"_a.noconvert(),
        "classes"_a.noconvert().none(), "iou_threshold"_a, "score_threshold"_a, "most"_a,
        nb::sig("def non_maximum_suppression(boxes: NDArray[np.float32], scores: NDArray[np.float32], classes: "
                "NDArray[np.int64] | None, iou_threshold: float, score_threshold: float, most: int) -> "
                "tuple[NDArray[np.int64], NDArray[np.int64]]"));
  m.def("ngram_hash_batch", &hash_texts, "texts"_a, "min_order"_a, "max_order"_a, "buckets"_a, "seed"_a, "capacity"_a);
}

}  // namespace alcove::binding
