// A heap of keys gives the candidates in order; each is compared with blocks of those that are kept.
#include <cstring>

#include "kernels/microkernels/non_maximum_suppression/non_maximum_suppression.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

constexpr size_t kBlock = kSuppressionBlock;

float greater(float a, float b) noexcept { return a > b ? a : b; }
float lesser(float a, float b) noexcept { return a < b ? a : b; }

struct Box {
  float x1, y1, x2, y2, area;
};

// Kept boxes; classes in halves of 32 bits, which vectors compare.
struct Block {
  float x1[kBlock], y1[kBlock], x2[kBlock], y2[kBlock], area[kBlock];
  uint32_t low[kBlock], high[kBlock];
};
static_assert(sizeof(Block) == kBlock * 7 * sizeof(float));

Box read_box(const float* from) noexcept {
  const Box box{from[0], from[1], from[2], from[3],
                greater(from[2] - from[0], 0.0f) * greater(from[3] - from[1], 0.0f)};
  return box.area > 0.0f ? box : Box{};
}

bool overlaps(const Block& block, const Box& box, uint64_t label, float most) noexcept {
  const auto low = static_cast<uint32_t>(label), high = static_cast<uint32_t>(label >> 32);
  uint32_t found = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const float width = greater(lesser(box.x2, block.x2[i]) - greater(box.x1, block.x1[i]), 0.0f);
    const float height = greater(lesser(box.y2, block.y2[i]) - greater(box.y1, block.y1[i]), 0.0f);
    const float shared = width * height;
    const float overlap = shared / (box.area + block.area[i] - shared);
    found |= static_cast<uint32_t>(overlap > most) & static_cast<uint32_t>(block.low[i] == low) &
             static_cast<uint32_t>(block.high[i] == high);
  }
  return found != 0;
}

// Lower keys are better: the score's bits in descending order, then the index.
uint64_t make_key(float score, size_t index) noexcept {
  uint32_t bits;
  score += 0.0f;  // -0 is 0
  std::memcpy(&bits, &score, sizeof bits);
  const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~rising) << 32 | index;
}

// The lowest key on top.
struct Heap {
  uint64_t* keys;
  size_t count = 0;

  void sink(size_t root, uint64_t key) const noexcept {
    for (;;) {
      size_t child = 2 * root + 1;
      if (child >= count) break;
      if (child + 1 < count && keys[child + 1] < keys[child]) ++child;
      if (key < keys[child]) break;
      keys[root] = keys[child];
      root = child;
    }
    keys[root] = key;
  }
  void order() const noexcept {
    for (size_t root = count / 2; root > 0; --root) sink(root - 1, keys[root - 1]);
  }
  size_t pop() noexcept {
    const auto index = static_cast<size_t>(keys[0] & 0xFFFFFFFFu);
    const uint64_t last = keys[--count];
    if (count > 0) sink(0, last);
    return index;
  }
};

// The greatest float that is not above a number: a float is above one exactly if it is above the other.
float round_down(double number) noexcept {
  const float near = static_cast<float>(number);
  if (static_cast<double>(near) <= number) return near;
  uint32_t bits;  // near is above 0: numbers are at least 0
  std::memcpy(&bits, &near, sizeof bits);
  --bits;
  float below;
  std::memcpy(&below, &bits, sizeof below);
  return below;
}

void suppress(const NonMaximumSuppressionF32& a) noexcept {
  Heap heap{reinterpret_cast<uint64_t*>(a.scratch)};
  auto* const blocks = reinterpret_cast<Block*>(a.scratch + a.count * sizeof(uint64_t));
  for (size_t i = 0; i < a.count; ++i) {
    if (static_cast<double>(a.scores[i]) > a.score) heap.keys[heap.count++] = make_key(a.scores[i], i);
  }
  heap.order();
  const float most = round_down(a.overlap);
  size_t kept = 0;
  while (heap.count > 0 && kept < a.most) {
    if (a.is_cancelled != nullptr && a.is_cancelled->load(std::memory_order_relaxed)) return;
    const size_t index = heap.pop();
    const Box box = read_box(a.boxes + 4 * index);
    const uint64_t label = a.classes == nullptr ? 0 : static_cast<uint64_t>(a.classes[index]);
    bool is_suppressed = false;
    for (size_t block = 0; block * kBlock < kept && !is_suppressed; ++block) {
      is_suppressed = overlaps(blocks[block], box, label, most);
    }
    if (is_suppressed) continue;
    Block& last = blocks[kept / kBlock];
    const size_t lane = kept % kBlock;
    if (lane == 0) std::memset(&last, 0, sizeof last);  // boxes without an area overlap none
    last.x1[lane] = box.x1;
    last.y1[lane] = box.y1;
    last.x2[lane] = box.x2;
    last.y2[lane] = box.y2;
    last.area[lane] = box.area;
    last.low[lane] = static_cast<uint32_t>(label);
    last.high[lane] = static_cast<uint32_t>(label >> 32);
    a.indices[kept++] = static_cast<int64_t>(index);
  }
  *a.kept = static_cast<int64_t>(kept);
  for (size_t i = kept; i < a.most; ++i) a.indices[i] = -1;
}

}  // namespace

void ALCOVE_PER_ISA(non_maximum_suppression_f32)(const NonMaximumSuppressionF32& a) noexcept { suppress(a); }

}  // namespace alcove::kernels
