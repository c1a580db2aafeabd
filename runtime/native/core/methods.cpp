// The METHODS section, and what the methods of a file share.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "core/checked.h"
#include "core/cursor.h"
#include "core/methods.h"
#include "core/ops/ops.h"

namespace alcove {

namespace {

using format::MethodRecord;
using format::MethodsHeader;

// Of a file that has no METHODS section.
constexpr std::string_view kOnlyMethod = "forward";

Status bad_method(Code code, std::string_view name, const char* what) {
  return failure(code, Section::methods, "method %.*s: %s", static_cast<int>(name.size()), name.data(), what);
}

Status check_names(const Methods& methods) {
  for (size_t m = 0; m < methods.all.size(); ++m) {
    const std::string_view name = methods.all[m].name;
    if (name.empty()) return failure(Code::method_name, Section::methods, "method %zu has no name", m);
    for (size_t other = 0; other < m; ++other) {
      if (methods.all[other].name == name) return bad_method(Code::method_name, name, "two methods have this name");
    }
  }
  return {};
}

// The records are those of the section; sums of their sizes may be anything.
Status read_records(Methods& methods, const MethodsHeader& header) {
  const uint64_t size = methods.bytes.size();
  const uint64_t records_end = sizeof(header) + uint64_t{header.count} * sizeof(MethodRecord);
  if (records_end > size) {
    return failure(Code::program_size, Section::methods, "the section has %" PRIu64 " bytes, its records take %" PRIu64,
                   size, records_end);
  }
  Checked programs_end = records_end, end = header.name_bytes;
  std::vector<MethodRecord> records(header.count);
  std::memcpy(records.data(), methods.bytes.data() + sizeof(header), header.count * sizeof(MethodRecord));
  for (const MethodRecord& record : records) {
    if (record.zero != 0) {
      return failure(Code::padding, Section::methods, "unused bytes of a method's record are not zero");
    }
    programs_end = programs_end + record.program_bytes;
    end = end + record.name_bytes;
  }
  end = end + programs_end;
  if (!end.is(size)) {
    return failure(Code::program_size, Section::methods,
                   "the records don't add up to the %" PRIu64 " bytes of the section", size);
  }
  Cursor names(methods.bytes.data(), programs_end.value(), size);
  Method first;
  ALCOVE_TRY(names.text(header.name_bytes, kMaxNameBytes, "a method's name", first.name));
  methods.all.push_back(std::move(first));
  const uint8_t* at = methods.bytes.data() + records_end;
  for (const MethodRecord& record : records) {
    Method method;
    ALCOVE_TRY(names.text(record.name_bytes, kMaxNameBytes, "a method's name", method.name));
    method.program.bytes.assign(at, at + record.program_bytes);
    at += record.program_bytes;
    methods.all.push_back(std::move(method));
  }
  return {};
}

// The state of this name, or none.
const KeptState* find_state(const Methods& methods, std::string_view name) {
  for (const KeptState& state : methods.states) {
    if (state.name == name) return &state;
  }
  return nullptr;
}

const Tensor& first_tensor(const Methods& methods, const KeptState& state) {
  return methods.all[state.method].program.tensors[state.tensor];
}

uint64_t initial_offset(const Program& program, uint32_t tensor) {
  for (const State& state : program.states) {
    if (state.tensor == tensor) return program.tensors[state.initial].offset;
  }
  return 0;
}

Status check_same(const Methods& methods, const KeptState& known, const Program& program, const State& state) {
  const Tensor& one = first_tensor(methods, known);
  const Tensor& other = program.tensors[state.tensor];
  const bool is_same =
      one.dtype == other.dtype && one.rank == other.rank &&
      std::equal(std::begin(one.dims), std::end(one.dims), std::begin(other.dims)) &&
      initial_offset(methods.all[known.method].program, known.tensor) == program.tensors[state.initial].offset;
  if (is_same) return {};
  return failure(Code::method_state, Section::methods,
                 "state %.*s has another type, shape or beginning than in the method before",
                 static_cast<int>(state.name.size()), state.name.data())
      .in_tensor(state.tensor);
}

// A constant of 16 bits that something reads as float32.
struct Widened {
  uint64_t offset;  // in WEIGHTS
  uint64_t size_bytes, at;
};

bool comes_before(const Widened& one, uint64_t offset) { return one.offset < offset; }

// By rising offset, those that several methods read once.
std::vector<Widened> find_widened(const Methods& methods) {
  std::vector<Widened> found;
  const auto add = [&found](const Tensor& tensor) {
    if (tensor.storage != Storage::constant || !tensor.is_half()) return;
    const auto at = std::lower_bound(found.begin(), found.end(), tensor.offset, comes_before);
    if (at == found.end() || at->offset != tensor.offset) found.insert(at, {tensor.offset, tensor.size_bytes, 0});
  };
  for (const Method& method : methods.all) {
    const Program& program = method.program;
    for (const State& state : program.states) add(program.tensors[state.initial]);
    for (const Op& op : program.ops) {
      for (uint8_t i = 0; i < op.input_count; ++i) {
        if (!ops::reads_halves(op.code, i)) add(program.tensors[op.inputs[i]]);
      }
    }
  }
  return found;
}

}  // namespace

Status read_methods(Methods& methods) {
  if (methods.bytes.empty()) {
    methods.all.emplace_back();
    methods.all[0].name = kOnlyMethod;
    return {};
  }
  MethodsHeader header;
  if (methods.bytes.size() < sizeof(header)) {
    return failure(Code::program_size, Section::methods, "the section has %zu bytes, its header takes %zu",
                   methods.bytes.size(), sizeof(header));
  }
  std::memcpy(&header, methods.bytes.data(), sizeof(header));
  if (header.count == 0 || header.count >= kMaxMethods) {
    return failure(Code::count_limit, Section::methods,
                   "%" PRIu32 " methods besides the first, allowed are 1 to %" PRIu32, header.count, kMaxMethods - 1);
  }
  if (!is_zero_from(header.zero, 0)) {
    return failure(Code::padding, Section::methods, "unused bytes of the section's header are not zero");
  }
  ALCOVE_TRY(read_records(methods, header));
  return check_names(methods);
}

Status join_states(Methods& methods) {
  Checked end = 0;
  for (size_t m = 0; m < methods.all.size(); ++m) {
    Method& method = methods.all[m];
    for (const State& state : method.program.states) {
      const KeptState* const same = methods.all.size() > 1 ? find_state(methods, state.name) : nullptr;
      const auto at = static_cast<uint32_t>(same == nullptr ? methods.states.size() : same - methods.states.data());
      const bool is_of_two = std::find(method.states.begin(), method.states.end(), at) != method.states.end();
      if (methods.all.size() > 1 && (state.name.empty() || is_of_two)) {
        return bad_method(Code::method_state, method.name, "a state has no name, or that of another");
      }
      if (same != nullptr) {
        ALCOVE_TRY(check_same(methods, *same, method.program, state));
        method.states.push_back(at);
        continue;
      }
      if (methods.states.size() == kMaxStates) {
        return failure(Code::count_limit, Section::methods, "the methods have more than %" PRIu32 " states",
                       kMaxStates);
      }
      const uint64_t size = method.program.tensors[state.tensor].size_bytes;
      method.states.push_back(at);
      methods.states.push_back({state.name, static_cast<uint32_t>(m), state.tensor, end.value(), size});
      end = (end + size).aligned(kTensorAlignment);
      if (!end.is_at_most(kMaxArenaBytes)) {
        return failure(Code::tensor_size, Section::program, "the states take more than %" PRIu64 " bytes",
                       kMaxArenaBytes);
      }
    }
  }
  methods.states_bytes = end.value();
  return {};
}

Status place_widened(Methods& methods) {
  std::vector<Widened> places = find_widened(methods);
  Checked end = 0;
  for (Widened& place : places) {
    place.at = end.value();
    end = (end + place.size_bytes).aligned(kTensorAlignment);
    if (!end.is_at_most(kMaxFileBytes)) {
      return failure(Code::tensor_size, Section::program,
                     "constants of 16 bits take more than %" PRIu64 " bytes once they are float32", kMaxFileBytes);
    }
  }
  methods.widened_bytes = end.value();
  for (Method& method : methods.all) {
    for (Tensor& tensor : method.program.tensors) {
      tensor.widened_at = Tensor::kInPlace;
      if (!tensor.is_half()) continue;
      const auto found = std::lower_bound(places.begin(), places.end(), tensor.offset, comes_before);
      if (found != places.end() && found->offset == tensor.offset) tensor.widened_at = found->at;
    }
  }
  return {};
}

}  // namespace alcove
