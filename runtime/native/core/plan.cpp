// Passes 6 and 7: the memory plan is proved again from the ops alone, by a sweep over time, in O(n log n).
#include <algorithm>
#include <cinttypes>
#include <map>

#include "core/checked.h"
#include "core/verify.h"

namespace alcove {

namespace {

// Time 0: the caller sets the inputs.  Time i + 1: op i runs.  Time ops + 1: the caller reads the outputs.
// A tensor holds its bytes from `birth` to `death`, both included.
struct Life {
  uint32_t birth = 0;
  uint32_t death = 0;
};

std::vector<Life> lives_of(const Program& program) {
  std::vector<Life> lives(program.tensors.size());
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (uint8_t k = 0; k < op.input_count; ++k) lives[op.inputs[k]].death = i + 1;
    for (uint8_t k = 0; k < op.output_count; ++k) lives[op.outputs[k]] = {i + 1, i + 1};
  }
  for (const Port& port : program.outputs) lives[port.tensor].death = static_cast<uint32_t>(program.ops.size() + 1);
  return lives;
}

// The ranges of the arena that are held at one time; they never overlap.  A range is held by a group: one tensor, and those
// that are views of it.
class Held {
 public:
  explicit Held(const std::vector<Tensor>& tensors) : tensors_(tensors), group_(tensors.size()), live_(tensors.size(), 0) {}

  // A group of its own for tensor `index`.  Returns the index of a tensor whose bytes are held already, or -1.
  int64_t take(uint32_t index) {
    const Tensor& tensor = tensors_[index];
    if (tensor.size_bytes == 0) return -1;
    const auto next = by_offset_.lower_bound(tensor.offset);
    if (next != by_offset_.end() && next->first < tensor.offset + tensor.size_bytes) return next->second;
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + tensors_[before->second].size_bytes > tensor.offset) return before->second;
    }
    by_offset_.emplace(tensor.offset, index);
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
    by_offset_.erase(tensors_[group].offset);
  }

 private:
  const std::vector<Tensor>& tensors_;
  std::map<uint64_t, uint32_t> by_offset_;  // of each group, the tensor that began it
  std::vector<uint32_t> group_;
  std::vector<uint32_t> live_;  // members of a group that live
};

// Whether output 0 has exactly the bytes of input 0.
bool is_same_place(const Program& program, const Op& op) {
  const Tensor& in = program.tensors[op.inputs[0]];
  const Tensor& out = program.tensors[op.outputs[0]];
  return in.storage == Storage::arena && in.size_bytes > 0 && in.offset == out.offset && in.size_bytes == out.size_bytes;
}

Status overlap(const Program& program, uint32_t index, int64_t other) {
  const Tensor& a = program.tensors[index];
  const Tensor& b = program.tensors[static_cast<size_t>(other)];
  return failure(Code::plan_overlap, Section::program,
                 "bytes %" PRIu64 " to %" PRIu64 " of the arena are held by tensor %" PRId64 " (%" PRIu64 " to %" PRIu64
                 ") at the same time",
                 a.offset, a.offset + a.size_bytes, other, b.offset, b.offset + b.size_bytes)
      .in_tensor(index);
}

Status check_extent(const Program& program) {
  Checked end = 0;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.storage != Storage::arena) continue;
    const Checked stop = Checked(tensor.offset) + tensor.size_bytes;
    if (!stop.is_at_most(kMaxArenaBytes)) {
      return failure(Code::plan_size, Section::program, "a tensor at %" PRIu64 " ends beyond the cap of %" PRIu64,
                     tensor.offset, kMaxArenaBytes)
          .in_tensor(t);
    }
    end = std::max(end.value(), stop.value());
  }
  if (!end.aligned(kTensorAlignment).is(program.arena_bytes)) {
    return failure(Code::plan_size, Section::program, "the arena has %" PRIu64 " bytes, its last tensor ends at %" PRIu64,
                   program.arena_bytes, end.value());
  }
  return {};
}

// Gives the outputs of op i their bytes: of their own, or of input 0 where the op may share them.
Status take_outputs(const Program& program, const std::vector<Life>& lives, uint32_t i, Held& held) {
  const Op& op = program.ops[i];
  const Sharing sharing = op_info(static_cast<uint16_t>(op.code))->sharing;
  uint8_t first = 0;
  if (sharing != Sharing::none && is_same_place(program, op)) {
    const uint32_t in = op.inputs[0];
    if (sharing == Sharing::alias) {
      held.join(op.outputs[0], in);
      first = 1;
    } else if (lives[in].death == i + 1 && held.is_alone(in)) {
      held.give(in);
    }
  }
  for (uint8_t k = first; k < op.output_count; ++k) {
    if (const int64_t other = held.take(op.outputs[k]); other >= 0) return overlap(program, op.outputs[k], other).in_op(i);
  }
  return {};
}

}  // namespace

Status check_plan(const Program& program) {
  ALCOVE_TRY(check_extent(program));
  const std::vector<Life> lives = lives_of(program);
  std::vector<uint32_t> by_death;
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.storage == Storage::arena && tensor.size_bytes > 0) by_death.push_back(t);
  }
  std::sort(by_death.begin(), by_death.end(), [&](uint32_t a, uint32_t b) { return lives[a].death < lives[b].death; });
  auto dying = by_death.begin();

  Held held(program.tensors);
  for (const Port& port : program.inputs) {
    if (const int64_t other = held.take(port.tensor); other >= 0) return overlap(program, port.tensor, other);
  }
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    for (; dying != by_death.end() && lives[*dying].death <= i; ++dying) held.give(*dying);
    ALCOVE_TRY(take_outputs(program, lives, i, held));
  }
  return {};
}

uint64_t session_bytes(const Program& program) noexcept {
  const uint64_t states = program.tensors.size() * kStateBytes;  // at most kMaxTensors * 16
  return (states + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment + program.arena_bytes;
}

}  // namespace alcove
