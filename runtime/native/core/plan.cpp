// Passes 6 and 7: the memory plan is proved again from the ops alone, by a sweep over time: O(n log n), and n / 4096 words for each op at most.
#include <algorithm>
#include <bit>
#include <cinttypes>

#include "core/checked.h"
#include "core/verify.h"

namespace alcove {

namespace {

// Time 0: the caller sets the inputs.  Time i + 1: op i runs.  Time ops + 1: states are updated, the caller reads outputs.
// A tensor holds its bytes from `birth` to `death`, both included; what undoes a write of rows until the run has succeeded.
struct LiveRange {
  uint32_t birth = 0;
  uint32_t death = 0;
};

std::vector<LiveRange> find_live_ranges(const Program& program) {
  std::vector<LiveRange> lives(program.tensors.size());
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (uint8_t k = 0; k < op.input_count; ++k) lives[op.inputs[k]].death = i + 1;
    for (uint8_t k = 0; k < op.output_count; ++k) lives[op.outputs[k]] = {i + 1, i + 1};
  }
  const auto end = static_cast<uint32_t>(program.ops.size() + 1);
  for (const Op& op : program.ops) {
    if (op.code == OpCode::write_rows) lives[op.inputs[1]].death = lives[op.outputs[0]].death = end;
  }
  for (const Port& port : program.outputs) lives[port.tensor].death = end;
  for (const State& state : program.states) lives[state.update].death = end;
  return lives;
}

// Numbers of tensors by a key below 2^32, in one order for equal keys; all sorting here is of one type, which keeps the code small.
class Order {
 public:
  void add(uint64_t key, uint32_t tensor) { entries_.push_back(key << 32 | tensor); }
  void sort() { std::sort(entries_.begin(), entries_.end()); }
  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] uint32_t operator[](size_t rank) const { return static_cast<uint32_t>(entries_[rank]); }

 private:
  std::vector<uint64_t> entries_;
};

// A set of numbers below some n, which finds the member next to a number: a bit for each, and one for each word that is not empty.
class Ranks {
 public:
  explicit Ranks(size_t n) : words_(n / 64 + 1), summary_(n / 4096 + 1) {}
  void add(uint32_t rank) {
    words_[rank / 64] |= bit(rank);
    summary_[rank / 4096] |= bit(rank / 64);
  }
  void remove(uint32_t rank) {
    words_[rank / 64] &= ~bit(rank);
    if (words_[rank / 64] == 0) summary_[rank / 4096] &= ~bit(rank / 64);
  }
  // The greatest member below `rank`, or -1.
  [[nodiscard]] int64_t below(uint32_t rank) const {
    const uint64_t near = words_[rank / 64] & (bit(rank) - 1);
    if (near != 0) return rank / 64 * 64 + last(near);
    const uint32_t word = rank / 64;
    uint64_t mask = bit(word) - 1;
    for (size_t group = word / 64 + 1; group-- > 0; mask = UINT64_MAX) {
      const uint64_t some = summary_[group] & mask;
      if (some == 0) continue;
      const auto found = static_cast<int64_t>(group) * 64 + last(some);
      return found * 64 + last(words_[static_cast<size_t>(found)]);
    }
    return -1;
  }
  // The least member at or above `rank`, or -1.
  [[nodiscard]] int64_t at_or_above(uint32_t rank) const {
    const uint64_t near = words_[rank / 64] & ~(bit(rank) - 1);
    if (near != 0) return rank / 64 * 64 + std::countr_zero(near);
    const uint32_t word = rank / 64;
    uint64_t mask = ~(bit(word) - 1) & ~bit(word);
    for (size_t group = word / 64; group < summary_.size(); ++group, mask = UINT64_MAX) {
      const uint64_t some = summary_[group] & mask;
      if (some == 0) continue;
      const auto found = static_cast<int64_t>(group) * 64 + std::countr_zero(some);
      return found * 64 + std::countr_zero(words_[static_cast<size_t>(found)]);
    }
    return -1;
  }

 private:
  static uint64_t bit(uint32_t number) { return uint64_t{1} << number % 64; }
  static int last(uint64_t bits) { return 63 - std::countl_zero(bits); }

  std::vector<uint64_t> words_, summary_;
};

// The ranges of the arena that are held at one time; they never overlap.  A range is held by a group: one tensor, and those
// that are views of it.
class Held {
 public:
  // Precondition: check_extent().
  explicit Held(const std::vector<Place>& places)
      : places_(places), rank_(places.size()), held_(places.size()), group_(places.size()), live_(places.size()) {
    for (uint32_t t = 0; t < places.size(); ++t) by_offset_.add(places[t].offset, t);
    by_offset_.sort();
    for (uint32_t r = 0; r < places.size(); ++r) rank_[by_offset_[r]] = r;
  }

  // A group of its own for tensor `index`.  Returns the index of a tensor whose bytes are held already, or -1.
  int64_t take(uint32_t index) {
    const Place& place = places_[index];
    if (place.size_bytes == 0) return -1;
    // Held ranges don't overlap: if none of the two beside it does, none does.
    const int64_t above = tensor_at(held_.at_or_above(rank_[index]));
    if (above >= 0 && places_[static_cast<size_t>(above)].offset < place.offset + place.size_bytes) return above;
    const int64_t below = tensor_at(held_.below(rank_[index]));
    if (below >= 0 && end_of(static_cast<size_t>(below)) > place.offset) return below;
    held_.add(rank_[index]);
    group_[index] = index;
    live_[index] = 1;
    return -1;
  }

  // Tensor `index` joins the group of `other`, which lives.
  void join(uint32_t index, uint32_t other) {
    group_[index] = group_[other];
    ++live_[group_[index]];
  }

  // Whether nothing but `index`, which lives, holds its bytes.
  [[nodiscard]] bool is_alone(uint32_t index) const { return live_[group_[index]] == 1; }

  void give(uint32_t index) {
    const uint32_t group = group_[index];
    if (live_[group] == 0 || --live_[group] > 0) return;  // overwritten in its place before, or viewed still
    held_.remove(rank_[group]);
  }

 private:
  [[nodiscard]] uint64_t end_of(size_t index) const { return places_[index].offset + places_[index].size_bytes; }
  [[nodiscard]] int64_t tensor_at(int64_t rank) const {
    return rank < 0 ? -1 : int64_t{by_offset_[static_cast<size_t>(rank)]};
  }

  const std::vector<Place>& places_;
  Order by_offset_;
  std::vector<uint32_t> rank_;  // of each tensor, by its offset
  Ranks held_;                  // of tensors that began a group that lives
  std::vector<uint32_t> group_;
  std::vector<uint32_t> live_;  // members of a group that live
};

// One plan of a program.
struct Plan {
  const Program& program;
  const std::vector<LiveRange>& lives;
  const Bucket& bucket;
};

// At whatever sizes, there are as many elements of one as of the other.
bool has_shape_of(const Tensor& one, const Tensor& other) {
  return one.rank == other.rank && one.dynamic_dims == other.dynamic_dims &&
         std::equal(std::begin(one.dims), std::end(one.dims), std::begin(other.dims));
}

// Whether output 0 has exactly the bytes of input 0, at whatever sizes.
bool is_same_place(const Plan& plan, const Op& op, Sharing sharing) {
  const Place& in = plan.bucket.places[op.inputs[0]];
  const Place& out = plan.bucket.places[op.outputs[0]];
  if (in.size_bytes == 0 || in.offset != out.offset || in.size_bytes != out.size_bytes) return false;
  // A view has the bytes of its original by its rule.  What overwrites goes element by element: four rows of bools have
  // the bytes of one row of floats, but not its elements.
  if (sharing == Sharing::alias) return true;
  const Tensor& source = plan.program.tensors[op.inputs[0]];
  const Tensor& result = plan.program.tensors[op.outputs[0]];
  return dtype_bytes(source.dtype) == dtype_bytes(result.dtype) &&
         (plan.program.symbols.empty() || has_shape_of(source, result));
}

Status overlap(const Plan& plan, uint32_t index, int64_t other) {
  const Place& a = plan.bucket.places[index];
  const Place& b = plan.bucket.places[static_cast<size_t>(other)];
  return failure(Code::plan_overlap, Section::program,
                 "bytes %" PRIu64 " to %" PRIu64 " of the arena are held by tensor %" PRId64 " (%" PRIu64 " to %" PRIu64
                 ") at the same time",
                 a.offset, a.offset + a.size_bytes, other, b.offset, b.offset + b.size_bytes)
      .in_tensor(index);
}

Status check_extent(const Bucket& bucket) {
  Checked end = 0;
  for (size_t t = 0; t < bucket.places.size(); ++t) {
    const Checked stop = Checked(bucket.places[t].offset) + bucket.places[t].size_bytes;
    if (!stop.is_at_most(kMaxArenaBytes)) {
      return failure(Code::plan_size, Section::program, "a tensor at %" PRIu64 " ends beyond the cap of %" PRIu64,
                     bucket.places[t].offset, kMaxArenaBytes)
          .in_tensor(t);
    }
    end = std::max(end.value(), stop.value());
  }
  if (!end.aligned(kTensorAlignment).is(bucket.arena_bytes)) {
    return failure(Code::plan_size, Section::program,
                   "the arena has %" PRIu64 " bytes, its last tensor ends at %" PRIu64, bucket.arena_bytes,
                   end.value());
  }
  return {};
}

// Whether input 0 is another input too: an op that overwrites it would read what it has just written.
bool reads_again(const Op& op) {
  const uint32_t* end = op.inputs + op.input_count;
  return std::find(op.inputs + 1, end, op.inputs[0]) != end;
}

// Gives the outputs of op i their bytes: of their own, or of input 0 where the op may share them.
Status take_outputs(const Plan& plan, uint32_t i, Held& held) {
  const Op& op = plan.program.ops[i];
  const Sharing sharing = op_info(static_cast<uint16_t>(op.code))->sharing;
  uint8_t first = 0;
  if (sharing != Sharing::none && is_same_place(plan, op, sharing)) {
    const uint32_t in = op.inputs[0];
    if (sharing == Sharing::alias) {
      held.join(op.outputs[0], in);
      first = 1;
    } else if (plan.lives[in].death == i + 1 && held.is_alone(in) && !reads_again(op)) {
      held.give(in);
    }
  }
  for (uint8_t k = first; k < op.output_count; ++k) {
    if (const int64_t other = held.take(op.outputs[k]); other >= 0) return overlap(plan, op.outputs[k], other).in_op(i);
  }
  return {};
}

// `by_death`: the tensors of the arena, by the time they die.
Status sweep(const Plan& plan, const Order& by_death) {
  Held held(plan.bucket.places);
  for (const Port& port : plan.program.inputs) {
    if (const int64_t other = held.take(port.tensor); other >= 0) return overlap(plan, port.tensor, other);
  }
  size_t dying = 0;
  for (uint32_t i = 0; i < plan.program.ops.size(); ++i) {
    for (; dying < by_death.size() && plan.lives[by_death[dying]].death <= i; ++dying) held.give(by_death[dying]);
    ALCOVE_TRY(take_outputs(plan, i, held));
  }
  return {};
}

}  // namespace

Status check_plan(const Program& program) {
  const std::vector<LiveRange> lives = find_live_ranges(program);
  Order by_death;
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.storage == Storage::arena && tensor.dtype != DType::text) by_death.add(lives[t].death, t);
  }
  by_death.sort();
  for (const Bucket& bucket : program.buckets) {
    ALCOVE_TRY(check_extent(bucket));
    ALCOVE_TRY(sweep({program, lives, bucket}, by_death));
  }
  return {};
}

uint64_t table_bytes(const Program& program) noexcept {
  // Counts are within their caps: no overflow.
  uint64_t bytes = program.tensors.size() * kStateBytes;
  if (!program.symbols.empty()) {
    bytes += program.tensors.size() * kBoundTensorBytes + program.ops.size() * kBoundOpBytes +
             program.expressions.size() * kBoundExpressionBytes + program.inputs.size() * kBoundInputBytes;
  }
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

uint64_t kept_bytes(const Methods& methods) noexcept {
  uint64_t bytes = methods.states_bytes;
  for (const Method& method : methods.all) bytes += table_bytes(method.program);
  return bytes;
}

uint64_t ceiling_bytes(const Methods& methods) noexcept {
  uint64_t arena = 0;
  for (const Method& method : methods.all) arena = std::max(arena, method.program.arena_bytes);
  return kept_bytes(methods) + methods.widened_bytes + arena;
}

}  // namespace alcove
