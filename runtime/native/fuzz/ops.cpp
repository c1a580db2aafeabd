// Fuzzes the operators of texts and images over attributes, sizes and values.  A program of one of them is made around what the
// bytes say, with the shapes that its rule asks for, so that most inputs run.
#include "fuzz/inputs.h"
#include "fuzz/parts.h"

namespace {

using alcove::DType;
using alcove::Layout;
using alcove::OpCode;
using alcove::Storage;
using alcove::fuzz::Choices;
using alcove::fuzz::Parts;

struct Builder {
  Parts parts;
  uint32_t framed = 0;  // the tensor whose first bytes are `frame`, if that has any
  std::vector<uint8_t> frame;

  uint32_t tensor(DType dtype, Storage storage, std::initializer_list<uint64_t> dims, bool is_ragged = false) {
    alcove::format::TensorRecord record = {};
    record.dtype = static_cast<uint8_t>(dtype);
    record.storage = static_cast<uint8_t>(storage);
    record.layout = static_cast<uint8_t>(Layout::row_major);
    record.flags = is_ragged ? alcove::format::kRagged : 0;
    for (const uint64_t dim : dims) record.dims[record.rank++] = static_cast<uint32_t>(dim);
    parts.tensors.push_back(record);
    return static_cast<uint32_t>(parts.tensors.size() - 1);
  }

  void op(OpCode code, std::initializer_list<uint32_t> inputs, uint32_t output,
          std::initializer_list<uint64_t> attributes) {
    alcove::format::OpRecord record = {};
    record.code = static_cast<uint16_t>(code);
    for (const uint32_t input : inputs) record.inputs[record.input_count++] = input;
    record.outputs[record.output_count++] = output;
    for (const uint64_t attribute : attributes) record.attributes[record.attribute_count++] = attribute;
    parts.ops.push_back(record);
  }

  void port(std::vector<alcove::format::PortRecord>& ports, uint32_t tensor) { ports.push_back({tensor, 1, 0, 0}); }
};

// The frame of a table that composes text, most often a right one, with indices that are often within their bounds.
uint32_t add_composition_table(Builder& build, Choices& choices) {
  const size_t blocks = choices.below(4), entries = choices.below(20), pairs = choices.below(20);
  const uint16_t counts[] = {0x434e, static_cast<uint16_t>(blocks), static_cast<uint16_t>(entries),
                             static_cast<uint16_t>(pairs)};
  build.frame.resize(sizeof(counts) + 1024);
  std::memcpy(build.frame.data(), counts, sizeof(counts));
  for (size_t i = sizeof(counts); i < build.frame.size(); ++i) {
    build.frame[i] = static_cast<uint8_t>(choices.below(blocks + 1));
  }
  const size_t wrong = choices.byte() == 0 ? 1 : 0;
  const size_t size = build.frame.size() + blocks * 64 + entries * 6 + pairs * 2 + wrong;
  build.framed = build.tensor(DType::u8, Storage::constant, {size});
  return build.framed;
}

void text(Builder& build, Choices& choices) {
  const uint64_t buckets = 1 + choices.below(40), ids = 1 + choices.below(200), columns = 1 + choices.below(70);
  const bool is_i8 = choices.byte() % 2 == 1;
  const uint32_t given = build.tensor(DType::text, Storage::arena, {});
  const uint32_t hashed = build.tensor(DType::i32, Storage::arena, {ids}, true);
  const uint32_t table = build.tensor(is_i8 ? DType::i8 : DType::f32, Storage::constant, {buckets, columns});
  const std::initializer_list<uint64_t> attributes = {choices.below(6), choices.below(12), buckets, choices.word()};
  if (choices.byte() % 2 == 0) {
    build.op(OpCode::ngram_hash, {given}, hashed, attributes);
  } else {
    build.op(OpCode::ngram_hash, {given, add_composition_table(build, choices)}, hashed, attributes);
  }
  const uint64_t mode = choices.below(2);
  uint32_t sum;
  if (is_i8) {
    const uint32_t scale = build.tensor(DType::f32, Storage::constant, {columns});
    sum = build.tensor(DType::f32, Storage::arena, {1, columns});
    build.op(OpCode::text_embedding_bag, {hashed, table, scale}, sum, {mode});
  } else {
    sum = build.tensor(DType::f32, Storage::arena, {1, columns});
    build.op(OpCode::text_embedding_bag, {hashed, table}, sum, {mode});
  }
  build.port(build.parts.inputs, given);
  build.port(build.parts.outputs, sum);
}

void image(Builder& build, Choices& choices, bool is_pool) {
  uint64_t in[2], kernel[2], stride[2], before[2], after[2], dilation[2], out[2];
  const bool is_ceil = is_pool && choices.byte() % 2 == 1;
  for (int axis = 0; axis < 2; ++axis) {
    in[axis] = 1 + choices.below(34);
    kernel[axis] = 1 + choices.below(6);
    stride[axis] = 1 + choices.below(4);
    before[axis] = choices.below(is_pool ? kernel[axis] / 2 + 1 : 5);
    after[axis] = is_pool ? before[axis] : choices.below(5);
    dilation[axis] = 1 + choices.below(3);
    const uint64_t room = in[axis] + before[axis] + after[axis], reach = (kernel[axis] - 1) * dilation[axis] + 1;
    if (room < reach) return;
    out[axis] = (room - reach + (is_ceil ? stride[axis] - 1 : 0)) / stride[axis] + 1;
    if (is_ceil && (out[axis] - 1) * stride[axis] >= in[axis] + before[axis]) --out[axis];
  }
  const uint64_t batch = 1 + choices.below(2), channels = 1 + choices.below(36),
                 times = is_pool ? 1 : 1 + choices.below(3);
  const uint32_t x = build.tensor(DType::f32, Storage::arena, {batch, in[0], in[1], channels});
  uint32_t y;
  if (is_pool) {
    y = build.tensor(DType::f32, Storage::arena, {batch, out[0], out[1], channels});
    build.op(OpCode::pool2d, {x}, y,
             {choices.below(3), kernel[0], kernel[1], stride[0], stride[1], before[0], before[1], dilation[0],
              dilation[1], is_ceil, choices.below(2), choices.below(3)});
  } else {
    const uint32_t weight = build.tensor(DType::f32, Storage::constant, {kernel[0] * kernel[1] + 1, channels * times});
    y = build.tensor(DType::f32, Storage::arena, {batch, out[0], out[1], channels * times});
    build.op(OpCode::depthwise_conv2d, {x, weight}, y,
             {kernel[0], kernel[1], stride[0], stride[1], before[0], before[1], after[0], after[1], dilation[0],
              dilation[1], choices.below(5), 0, 0});
  }
  build.port(build.parts.inputs, x);
  build.port(build.parts.outputs, y);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices choices(data, size);
  Builder build;
  std::memcpy(build.parts.header.magic, alcove::format::kMagic, sizeof(build.parts.header.magic));
  build.parts.header.major = alcove::format::kMajor;
  switch (choices.below(3)) {
    case 0: text(build, choices); break;
    case 1: image(build, choices, false); break;
    default: image(build, choices, true);
  }
  build.parts.weights = {1};
  alcove::fuzz::repair(build.parts, true);
  choices.fill(DType::f32, build.parts.weights);
  if (!build.frame.empty()) {
    uint8_t* at = build.parts.weights.data() + build.parts.tensors[build.framed].offset;
    std::memcpy(at, build.frame.data(), build.frame.size());
  }
  std::vector<uint8_t> program(alcove::fuzz::composed_bytes(build.parts));
  alcove::fuzz::compose(build.parts, program.data());
  auto model = alcove::Model::open(alcove::Bytes::copy_of(program.data(), program.size()));
  if (model.is_ok()) alcove::fuzz::run_all_ways(model.value(), choices);
  return 0;
}
