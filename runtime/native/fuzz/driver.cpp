// Opens programs from files, and runs those that open with texts and arrays of its own making.
//
//   alcove_driver FILE ...   prints "FILE: CODE" for each
//
// CODE is `ok`, or the name of the code that refused the program or its input (core/codes.inc).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/session.h"
#include "core/sizes.h"

namespace {

using alcove::DType;
using alcove::Port;
using alcove::Program;
using alcove::Session;
using alcove::Status;
using alcove::Tensor;

// Larger arenas and longer runs are opened and not run: the time would go into few programs.
constexpr uint64_t kMaxRunArenaBytes = 32ull << 20;
constexpr uint64_t kDriverOpBudget = 1ull << 28;

const std::string kTexts[] = {
    "Wo ist der Bahnhof?  Où est la gare?  Где вокзал?",
    "",
    "half a character: \xE2\x82",
    std::string(5000, 'x') + "\xF0\x9F\x98\x80 l'eau",
};
constexpr int kRounds = 4;
constexpr int64_t kThreads = 3;

// Small numbers, so that ids often fit, and now and then any bits at all: NaN, infinities, denormals.
class Values {
 public:
  explicit Values(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }

  void fill(DType dtype, std::vector<uint8_t>& data) {
    for (size_t i = 0; i + 4 <= data.size(); i += 4) {
      const uint32_t bits = next();
      const bool is_odd = bits % 61 == 0;
      const float small = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-30f;
      uint32_t value = is_odd ? next() : bits % 8;
      if (dtype == DType::f32 && !is_odd) std::memcpy(&value, &small, 4);
      if (dtype == DType::i64 && !is_odd && i % 8 == 4) value = 0;  // the upper half
      std::memcpy(data.data() + i, &value, 4);
    }
  }

 private:
  uint64_t state_;
};

// The dimensions of all inputs in a round: known, or expressions of sizes between their bounds, other ones in each round.
std::vector<std::vector<uint64_t>> dims_of_inputs(const Program& program, int round) {
  uint32_t sizes[alcove::kMaxSymbols] = {};
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const alcove::Symbol& symbol = program.symbols[s];
    const uint64_t parts[] = {0, 7, 3, 1};  // eighths of the range, and at last the greatest
    const uint64_t part = round == kRounds - 1 ? 8 : parts[(static_cast<size_t>(round) + s) % 4];
    sizes[s] = static_cast<uint32_t>(symbol.min + (uint64_t{symbol.max} - symbol.min) * part / 8);
  }
  std::vector<int64_t> values(program.expressions.size(), 1);
  (void)alcove::evaluate(program, sizes, values.data());
  std::vector<std::vector<uint64_t>> result;
  for (const Port& port : program.inputs) {
    const Tensor& tensor = program.tensors[port.tensor];
    std::vector<uint64_t> dims(tensor.dims, tensor.dims + tensor.rank);
    for (uint8_t d = 0; d < tensor.rank; ++d) {
      if ((tensor.dynamic_dims >> d & 1) != 0) dims[d] = static_cast<uint64_t>(values[tensor.dims[d]]);
    }
    if (tensor.is_ragged) dims[0] = dims[0] * static_cast<uint64_t>(round) / (kRounds - 1);
    result.push_back(std::move(dims));
  }
  return result;
}

Status set_input(Session& session, size_t port, int round, const std::vector<uint64_t>& dims,
                 std::vector<uint8_t>& data) {
  const Program& program = session.described();
  const Tensor& tensor = program.tensors[program.inputs[port].tensor];
  if (tensor.dtype == DType::text) {
    const std::string& text = kTexts[round];
    return session.set_text(port, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
  alcove::Checked bytes = alcove::dtype_bytes(tensor.dtype);
  for (const uint64_t dim : dims) bytes = bytes * dim;
  // A dimension that is an expression and no symbol's own may be anything; the session compares before it reads.
  data.assign(bytes.is_at_most(kMaxRunArenaBytes) ? bytes.value() : kMaxRunArenaBytes, 1);
  Values(static_cast<uint64_t>(round) * 64 + port).fill(tensor.dtype, data);
  return session.set_tensor(port, tensor.dtype, dims.data(), dims.size(), data.data());
}

// Appends the bytes of all outputs.
Status run_round(Session& session, int round, std::vector<uint8_t>& answer) {
  ALCOVE_TRY(session.select(static_cast<size_t>(round) % session.model().methods().all.size()));
  const Program& program = session.described();
  const std::vector<std::vector<uint64_t>> dims = dims_of_inputs(program, round);
  std::vector<uint8_t> data;
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    if (program.tensors[program.inputs[port].tensor].dtype == DType::text) continue;
    ALCOVE_TRY(session.set_dims(port, dims[port].data(), dims[port].size()));
  }
  for (size_t port = 0; port < program.inputs.size(); ++port) {
    ALCOVE_TRY(set_input(session, port, round, dims[port], data));
  }
  ALCOVE_TRY(session.run());
  for (size_t port = 0; port < program.outputs.size(); ++port) {
    const Tensor& tensor = session.program().tensors[program.outputs[port].tensor];
    uint64_t bytes = alcove::dtype_bytes(tensor.dtype);
    for (uint8_t d = 0; d < tensor.rank; ++d) bytes *= d == 0 ? session.output_extent(port) : tensor.dims[d];
    answer.insert(answer.end(), session.output(port), session.output(port) + bytes);
  }
  return {};
}

// Runs all rounds; returns what refused one for a reason that is not its input's.
Status run_all(Session& session, std::vector<uint8_t>& answer) {
  for (int round = 0; round < kRounds; ++round) {
    if (round == 2) session.reset();
    const Status status = run_round(session, round, answer);
    answer.push_back(static_cast<uint8_t>(status.code));
    const alcove::Kind kind = alcove::code_kind(status.code);
    if (kind != alcove::Kind::ok && kind != alcove::Kind::input && kind != alcove::Kind::text) return status;
  }
  return {};
}

// Aborts if the session gives other answers; returns what refused it.
Status compare(alcove::Result<std::unique_ptr<Session>> session, const std::vector<uint8_t>& answer, const char* what) {
  if (!session.is_ok()) return session.status();
  std::vector<uint8_t> same;
  ALCOVE_TRY(run_all(*session.value(), same));
  if (answer != same) {
    std::fprintf(stderr, "%s the answer\n", what);
    std::abort();
  }
  return {};
}

// Opens and runs.
alcove::Code judge(alcove::Bytes bytes) {
  auto model = alcove::Model::open(std::move(bytes));
  if (!model.is_ok()) return model.status().code;
  const Status weights = model.value()->check_weights();
  if (model.value()->methods().states_bytes > kMaxRunArenaBytes) return alcove::Code::ok;
  for (const alcove::Method& method : model.value()->methods().all) {
    if (method.program.arena_bytes > kMaxRunArenaBytes) return alcove::Code::ok;
    if (method.program.run_cost > kDriverOpBudget) return alcove::Code::ok;
  }
  auto session = Session::create(model.value());
  if (!session.is_ok()) return session.status().code;
  std::vector<uint8_t> answer;
  if (const Status status = run_all(*session.value(), answer); !status.is_ok()) return status.code;
  // With threads: each op that can be shared out is.
  const alcove::SessionOptions threaded = {.threads = kThreads, .part_work = 1};
  if (const Status status = compare(Session::create(model.value(), threaded), answer, "threads change");
      !status.is_ok()) {
    return status.code;
  }
#if defined(ALCOVE_SANITIZE)
  for (const alcove::SessionOptions& options : {alcove::SessionOptions{}, threaded}) {
    const Status status = compare(Session::create_apart(model.value(), options), answer, "the memory plan changes");
    if (!status.is_ok()) return status.code;
  }
#endif
  return weights.code;
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    auto bytes = alcove::Bytes::of_file(arguments[i]);
    const alcove::Code code = bytes.is_ok() ? judge(std::move(bytes.value())) : bytes.status().code;
    std::printf("%s: %s\n", arguments[i], alcove::code_name(code));
    std::fflush(stdout);
  }
  return 0;
}
