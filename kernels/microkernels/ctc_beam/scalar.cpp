// One frame at a time: what stays, what grows, the best of both in a heap whose worst is on top.
#include "kernels/canonical.h"
#include "kernels/math/f64.h"
#include "kernels/microkernels/ctc_beam/ctc_beam.h"

namespace alcove::kernels {

namespace {

using ctc::Beam;
using ctc::Candidate;
using ctc::Node;

constexpr int32_t kStays = -1;
constexpr float kGreatest = 3.40282346638528859812e+38f;

double keep(double product) noexcept { return product < 0x1p-900 ? 0.0 : product; }
double total(const Beam& beam) noexcept { return beam.blank + beam.rest; }

// A strict and total order.
bool precedes(const Candidate& a, const Candidate& b) noexcept {
  if (a.probability != b.probability) return a.probability > b.probability;
  if (a.source != b.source) return a.source < b.source;
  return a.letter < b.letter;
}

// The best `room` candidates.
struct Heap {
  Candidate* items;
  size_t room, count;

  void sink(size_t root, Candidate item) const noexcept {
    for (;;) {
      size_t child = 2 * root + 1;
      if (child >= count) break;
      if (child + 1 < count && precedes(items[child], items[child + 1])) ++child;
      if (!precedes(item, items[child])) break;
      items[root] = items[child];
      root = child;
    }
    items[root] = item;
  }
  void offer(const Candidate& item) noexcept {
    if (count == room) {
      if (precedes(item, items[0])) sink(0, item);
      return;
    }
    size_t at = count++;
    for (; at > 0 && precedes(items[(at - 1) / 2], item); at = (at - 1) / 2) items[at] = items[(at - 1) / 2];
    items[at] = item;
  }
  // Best first.
  void sort() noexcept {
    const size_t all = count;
    while (count > 1) {
      const Candidate worst = items[0];
      const Candidate last = items[--count];
      sink(0, last);
      items[count] = worst;
    }
    count = all;
  }
};

class Search {
 public:
  explicit Search(const CtcBeamF32& a) noexcept : a_(a), heap_{nullptr, a.width, 0} {
    uint8_t* at = a.scratch;
    shares_ = take<double>(at, a.classes);
    stay_blank_ = take<double>(at, a.width);
    stay_rest_ = take<double>(at, a.width);
    beams_ = take<Beam>(at, a.width);
    next_ = take<Beam>(at, a.width);
    heap_.items = take<Candidate>(at, a.width);
    nodes_ = take<Node>(at, a.width * a.frames + 1);
    is_kept_ = at;
    for (size_t c = 0; c < a.classes; ++c) is_kept_[c] = 0;
    nodes_[0] = {-1, -1, -1, -1, 0};
    beams_[0] = {1.0, 0.0, 0};
  }

  void run() noexcept {
    for (size_t t = 0; t < a_.frames; ++t) {
      if (a_.is_cancelled != nullptr && a_.is_cancelled->load(std::memory_order_relaxed)) return;
      if (!read_frame(a_.log_probs + t * a_.classes)) continue;
      stay();
      collect();
      replace();
    }
    for (size_t i = 0; i < a_.paths; ++i) write(i);
  }

 private:
  template <typename T>
  static T* take(uint8_t*& at, size_t count) noexcept {
    T* const taken = reinterpret_cast<T*>(at);
    at += count * sizeof(T);
    return taken;
  }

  // False if no class has a probability.
  bool read_frame(const float* x) noexcept {
    float most = -kInfinityF;
    for (size_t c = 0; c < a_.classes; ++c) most = x[c] > most ? x[c] : most;
    most = most > kGreatest ? kGreatest : most;
    logarithm_ += static_cast<double>(most);
    if (most == -kInfinityF) return false;
    for (size_t c = 0; c < a_.classes; ++c) {
      const float value = x[c] > kGreatest ? kGreatest : x[c];
      shares_[c] = value > -kInfinityF ? exp_f64(static_cast<double>(value) - static_cast<double>(most)) : 0.0;
    }
    return true;
  }

  // What alignments that a prefix is extended from by `letter` sum up to.
  [[nodiscard]] double extended_sum(const Beam& beam, int32_t letter) const noexcept {
    return nodes_[beam.node].letter == letter ? beam.blank : total(beam);
  }

  void stay() noexcept {
    for (size_t i = 0; i < count_; ++i) {
      const Beam& beam = beams_[i];
      const Node& node = nodes_[beam.node];
      stay_blank_[i] = keep(total(beam) * shares_[a_.blank]);
      stay_rest_[i] = 0.0;
      if (node.parent < 0) continue;
      const double share = shares_[node.letter];
      stay_rest_[i] = keep(beam.rest * share);
      const int32_t place = nodes_[node.parent].place;
      if (place >= 0) stay_rest_[i] += keep(extended_sum(beams_[place], node.letter) * share);
    }
  }

  void mark_children(size_t i, uint8_t mark) noexcept {
    for (size_t j = 0; j < count_; ++j) {
      const Node& node = nodes_[beams_[j].node];
      if (node.parent == beams_[i].node) is_kept_[node.letter] = mark;
    }
  }

  void offer(double probability, size_t source, int32_t letter) noexcept {
    if (probability > 0.0) heap_.offer({probability, static_cast<int32_t>(source), letter});
  }

  void collect() noexcept {
    heap_.count = 0;
    for (size_t i = 0; i < count_; ++i) offer(stay_blank_[i] + stay_rest_[i], i, kStays);
    is_kept_[a_.blank] = 1;
    for (size_t i = 0; i < count_; ++i) {
      mark_children(i, 1);
      const int32_t last = nodes_[beams_[i].node].letter;
      const double sum = total(beams_[i]);
      for (size_t c = 0; c < a_.classes; ++c) {
        if (is_kept_[c] != 0) continue;
        const auto letter = static_cast<int32_t>(c);
        const double probability = keep((letter == last ? beams_[i].blank : sum) * shares_[c]);
        if (heap_.count == heap_.room && probability < heap_.items[0].probability) continue;
        offer(probability, i, letter);
      }
      mark_children(i, 0);
    }
    is_kept_[a_.blank] = 0;
    heap_.sort();
  }

  int32_t find_child(int32_t parent, int32_t letter) noexcept {
    int32_t child = nodes_[parent].child;
    while (child >= 0 && nodes_[child].letter != letter) child = nodes_[child].sibling;
    if (child >= 0) return child;
    child = static_cast<int32_t>(node_count_++);
    nodes_[child] = {parent, letter, -1, nodes_[parent].child, -1};
    nodes_[parent].child = child;
    return child;
  }

  void replace() noexcept {
    // The greatest is first.  Its exponent, as that of a number that is normal.
    const auto exponent = static_cast<int64_t>(bits_of(heap_.items[0].probability) >> 52) - 1023;
    const double scale = double_of(static_cast<uint64_t>(1023 - exponent) << 52);
    exponents_ += exponent;
    for (size_t i = 0; i < heap_.count; ++i) {
      const Candidate& item = heap_.items[i];
      const int32_t node = beams_[item.source].node;
      if (item.letter == kStays) {
        next_[i] = {stay_blank_[item.source] * scale, stay_rest_[item.source] * scale, node};
      } else {
        next_[i] = {0.0, item.probability * scale, find_child(node, item.letter)};
      }
    }
    for (size_t i = 0; i < count_; ++i) nodes_[beams_[i].node].place = -1;
    count_ = heap_.count;
    for (size_t i = 0; i < count_; ++i) nodes_[next_[i].node].place = static_cast<int32_t>(i);
    Beam* const old = beams_;
    beams_ = next_;
    next_ = old;
  }

  void write(size_t i) noexcept {
    int64_t* const ids = a_.ids + i * a_.frames;
    size_t length = 0;
    if (i < count_) {
      for (int32_t node = beams_[i].node; nodes_[node].parent >= 0; node = nodes_[node].parent) ++length;
      size_t at = length;
      for (int32_t node = beams_[i].node; nodes_[node].parent >= 0; node = nodes_[node].parent) {
        ids[--at] = nodes_[node].letter;
      }
    }
    for (size_t t = length; t < a_.frames; ++t) ids[t] = static_cast<int64_t>(a_.blank);
    a_.counts[i] = static_cast<int64_t>(length);
    a_.scores[i] = -kInfinityF;
    if (i >= count_) return;
    const double logarithm = log_f64(total(beams_[i])) + logarithm_ + kLn2 * static_cast<double>(exponents_);
    a_.scores[i] = canonical(static_cast<float>(logarithm));
  }

  const CtcBeamF32& a_;
  double *shares_, *stay_blank_, *stay_rest_;
  Beam *beams_, *next_;
  Heap heap_;
  Node* nodes_;
  uint8_t* is_kept_;
  size_t count_ = 1, node_count_ = 1;
  double logarithm_ = 0.0;
  int64_t exponents_ = 0;
};

}  // namespace

void ctc_beam_f32_scalar(const CtcBeamF32& a) noexcept { Search(a).run(); }

}  // namespace alcove::kernels
