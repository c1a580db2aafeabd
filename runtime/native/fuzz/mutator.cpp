// Mutates programs for libFuzzer record by record, with digests made right afterwards (fuzz/parts.h), guided by the
// branches that an input reaches.
#include <algorithm>
#include <cstring>
#include <random>

#include "core/program.h"
#include "fuzz/parts.h"

extern "C" {
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Whether the target reads weights, and bytes behind the program.
extern bool fuzz_has_tail;
}

namespace {

using alcove::fuzz::Parts;
using Random = std::minstd_rand;

constexpr uint64_t kNumbers[] = {
    0,          1,           2,           3,          7,         8,          9,
    15,         16,          17,          63,         64,        65,         255,
    256,        1023,        1024,        16384,      1u << 20,  1u << 24,   0x7FFFFFFF,
    0x80000000, 0xFFFFFFC0u, 0xFFFFFFFFu, 1ull << 40, INT64_MAX, 1ull << 63, UINT64_MAX - 63,
    UINT64_MAX};
constexpr size_t kTailBytes = 512;

size_t below(Random& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }
bool once_in(Random& random, size_t n) { return random() % n == 0; }

// A telling number, or one beside the old.
template <typename T>
void change(Random& random, T& field) {
  switch (below(random, 6)) {
    case 0: field = static_cast<T>(field + 1); break;
    case 1: field = static_cast<T>(field - 1); break;
    case 2: field = static_cast<T>(field ^ T{1} << below(random, 8 * sizeof(T))); break;
    case 3: field = static_cast<T>(below(random, 20)); break;
    default: field = static_cast<T>(kNumbers[below(random, std::size(kNumbers))]);
  }
}

void change_tensor(Random& random, Parts& parts, alcove::format::TensorRecord& tensor) {
  const auto& other = parts.tensors[below(random, parts.tensors.size())];
  switch (below(random, 10)) {
    case 0: return change(random, tensor.dtype);
    case 1: return change(random, tensor.storage);
    case 2: return change(random, tensor.layout);
    case 3: return change(random, tensor.rank);
    case 4: return change(random, tensor.flags);
    case 5: return change(random, tensor.dynamic_dims);
    case 6: tensor.offset = once_in(random, 2) ? other.offset : tensor.offset + 64; return;
    case 7: return change(random, once_in(random, 2) ? tensor.size_bytes : tensor.offset);
    default: break;
  }
  // A dimension; mostly all that had the same follow.
  uint32_t& dim = tensor.dims[below(random, std::min<size_t>(tensor.rank + 1u, alcove::kMaxRank))];
  const uint32_t old = dim;
  change(random, dim);
  const uint32_t now = dim;
  if (once_in(random, 4)) return;
  for (auto& each : parts.tensors) std::replace(std::begin(each.dims), std::end(each.dims), old, now);
}

void change_op(Random& random, const Parts& parts, alcove::format::OpRecord& op) {
  const auto tensor = static_cast<uint32_t>(below(random, parts.tensors.size()));
  switch (below(random, 8)) {
    case 0:
      if (once_in(random, 3)) return change(random, op.code);
      op.code = static_cast<uint16_t>(alcove::manifest()[below(random, alcove::manifest().size())].code);
      return;
    case 1: return change(random, once_in(random, 2) ? op.input_count : op.output_count);
    case 2: return change(random, once_in(random, 2) ? op.attribute_count : op.zero[0]);
    case 3: return change(random, once_in(random, 2) ? op.attribute_dynamic : op.source_bytes);
    case 4: op.inputs[below(random, op.input_count % 17u)] = tensor; return;
    case 5: op.outputs[below(random, op.output_count % 5u)] = tensor; return;
    default: return change(random, op.attributes[below(random, op.attribute_count % 21u)]);
  }
}

// Any 4-byte field of a record.
template <typename T>
void change_any(Random& random, std::vector<T>& records) {
  if (records.empty()) return;
  uint8_t* bytes =
      reinterpret_cast<uint8_t*>(&records[below(random, records.size())]) + below(random, sizeof(T) / 4) * 4;
  uint32_t field;
  std::memcpy(&field, bytes, sizeof(field));
  change(random, field);
  std::memcpy(bytes, &field, sizeof(field));
}

// Repeats, swaps or leaves out records.
template <typename T>
void reorder(Random& random, std::vector<T>& records) {
  if (records.empty()) return;
  const size_t one = below(random, records.size());
  const size_t other = below(random, records.size());
  switch (below(random, 3)) {
    case 0: std::swap(records[one], records[other]); break;
    case 1:
      if (records.size() < 64) records.insert(records.begin() + static_cast<ptrdiff_t>(one), T(records[other]));
      break;
    default: records.erase(records.begin() + static_cast<ptrdiff_t>(one));
  }
}

void mutate_bytes(std::vector<uint8_t>& bytes, size_t room) {
  const size_t size = bytes.size();
  bytes.resize(std::max(size, room));
  if (bytes.empty()) return;
  bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
}

void mutate_parts(Random& random, Parts& parts) {
  switch (below(random, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      if (!parts.tensors.empty()) change_tensor(random, parts, parts.tensors[below(random, parts.tensors.size())]);
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      if (!parts.ops.empty()) change_op(random, parts, parts.ops[below(random, parts.ops.size())]);
      break;
    case 8: change_any(random, once_in(random, 2) ? parts.inputs : parts.outputs); break;
    case 9:
      change_any(random, parts.states);
      change_any(random, parts.symbols);
      break;
    case 10: change_any(random, parts.expressions); break;
    case 11: once_in(random, 2) ? change_any(random, parts.buckets) : change_any(random, parts.places); break;
    case 12: {
      std::vector<uint8_t>& bytes = once_in(random, 2) && !parts.methods.empty() ? parts.methods : parts.strings;
      mutate_bytes(bytes, bytes.size());
      break;
    }
    case 13: once_in(random, 2) ? reorder(random, parts.ops) : reorder(random, parts.tensors); break;
    case 14:
      once_in(random, 2) ? reorder(random, parts.outputs) : reorder(random, parts.inputs);
      once_in(random, 2) ? reorder(random, parts.expressions) : reorder(random, parts.states);
      break;
    default: {
      std::vector<uint8_t>& bytes = fuzz_has_tail ? parts.weights : parts.certificate;
      if (!bytes.empty()) mutate_bytes(bytes, bytes.size());
    }
  }
}

// One of the donor's records in the place of one.
template <typename T>
void take_record(Random& random, std::vector<T>& records, const std::vector<T>& donor) {
  if (!records.empty() && !donor.empty()) records[below(random, records.size())] = donor[below(random, donor.size())];
}

// As much of the donor's strings as an op had of its own, or all strings that follow would be others.
void take_op(Random& random, Parts& parts, const Parts& donor) {
  if (parts.ops.empty() || donor.ops.empty()) return;
  auto& op = parts.ops[below(random, parts.ops.size())];
  const uint32_t source_bytes = op.source_bytes;
  op = donor.ops[below(random, donor.ops.size())];
  op.source_bytes = source_bytes;
}

void take_sizes(Parts& parts, const Parts& donor) {
  parts.symbols = donor.symbols;
  parts.expressions = donor.expressions;
  parts.buckets = donor.buckets;
  parts.places = donor.places;
}

// The size that was written, or `otherwise` where there is no room.
size_t give(const Parts& parts, uint8_t* data, size_t otherwise, size_t room) {
  const size_t size = alcove::fuzz::composed_bytes(parts);
  if (size > room) return otherwise;
  alcove::fuzz::compose(parts, data);
  return size;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed + 1);
  static Parts parts;  // one thread; its memory is used again
  if (!alcove::fuzz::split(data, size, parts)) {
    const size_t now = LLVMFuzzerMutate(data, size, max_size);
    if (!once_in(random, 8)) alcove::fuzz::reseal(data, alcove::fuzz::program_bytes(data, now));
    return now;
  }
  if (fuzz_has_tail && (parts.tail.empty() || !once_in(random, 3))) {
    mutate_bytes(parts.tail, kTailBytes);
    return give(parts, data, size, max_size);
  }
  if (once_in(random, 6)) {  // bytes of header, table or program, as they lie
    const size_t whole = alcove::fuzz::program_bytes(data, size);
    const size_t before_weights = std::min<size_t>(whole, 16384);
    const size_t start = once_in(random, 3) ? 0 : below(random, before_weights);
    if (start < before_weights)
      LLVMFuzzerMutate(data + start, std::min<size_t>(before_weights - start, 64),
                       std::min<size_t>(before_weights - start, 64));
    if (!once_in(random, 8)) alcove::fuzz::reseal(data, whole);
    return size;
  }
  for (size_t i = 0, n = 1 + below(random, 3); i < n; ++i) mutate_parts(random, parts);
  if (!once_in(random, 4)) alcove::fuzz::repair(parts, once_in(random, 2));
  return give(parts, data, size, max_size);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* one, size_t one_size, const uint8_t* other,
                                            size_t other_size, uint8_t* out, size_t max_size, unsigned seed) {
  Random random(seed + 1);
  static Parts parts, donor;
  if (!alcove::fuzz::split(one, one_size, parts) || !alcove::fuzz::split(other, other_size, donor)) return 0;
  switch (below(random, fuzz_has_tail ? 12 : 8)) {
    case 0: take_record(random, parts.inputs, donor.inputs); break;
    case 1: take_record(random, parts.outputs, donor.outputs); break;
    case 2:
      take_record(random, parts.states, donor.states);
      take_record(random, parts.expressions, donor.expressions);
      break;
    case 3: take_sizes(parts, donor); break;
    case 4:
    case 5: take_op(random, parts, donor); break;
    case 6:
    case 7: take_record(random, parts.tensors, donor.tensors); break;
    case 8: parts.weights = donor.weights; break;
    default: parts.tail = donor.tail;
  }
  alcove::fuzz::repair(parts, once_in(random, 2));
  return give(parts, out, 0, max_size);
}
