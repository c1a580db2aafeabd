// Packs, masks and rounds, compiled once for each instruction set; linear_i8 and softmax do the arithmetic that takes time.
#include "kernels/operators/attention_i8/attention_i8.h"
#include "kernels/operators/matmul/batch.h"
#include "kernels/simd/per_isa.h"

namespace alcove::kernels {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Where everything lies in the scratch.
struct Room {
  uint32_t* key_terms;   // of each key: query zero point * (sum of its elements - width * key zero point)
  uint32_t* value_sums;  // of each column of values
  int32_t* scores;       // [rows][16 * key panels]; then the same as float32
  int32_t* products;     // [rows][16 * value panels]
  int8_t* shares;        // [rows][span]
  int8_t* key_panels;
  int8_t* value_panels;

  explicit Room(const AttentionI8& a) noexcept {
    const size_t keys = (a.span + 15) / 16 * 16, values = (a.value_width + 15) / 16 * 16;
    key_terms = static_cast<uint32_t*>(a.scratch);
    value_sums = key_terms + keys;
    scores = reinterpret_cast<int32_t*>(value_sums + values);
    products = scores + kAttentionI8Rows * keys;
    shares = reinterpret_cast<int8_t*>(products + kAttentionI8Rows * values);
    key_panels = shares + kAttentionI8Rows * keys;
    value_panels = key_panels + keys / 16 * panel_bytes_i8(a.width);
  }
};

uint32_t sum_of(const int8_t* x, size_t count) noexcept {
  int32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += x[i];
  return static_cast<uint32_t>(sum);
}

// Each key is one output of a panel.
void pack_keys(const AttentionI8& a, const int8_t* key, const Room& room) noexcept {
  const size_t bytes = panel_bytes_i8(a.width), whole = a.width / 4, rest = a.width % 4;
  const auto query_zero = static_cast<uint32_t>(a.query_zero_point), key_zero = static_cast<uint32_t>(a.key_zero_point);
  const auto width = static_cast<uint32_t>(a.width);
  for (size_t first = 0; first < a.span; first += 16) {
    int8_t* panel = room.key_panels + first / 16 * bytes;
    std::memset(panel, 0, kPanelHeadBytes);
    for (size_t c = 0; c < 16; ++c) {
      int8_t* to = panel + kPanelHeadBytes + c * 4;
      if (first + c >= a.span) {
        for (size_t i = 0; i < (a.width + 3) / 4; ++i) std::memset(to + i * 64, 0, 4);
        continue;
      }
      const int8_t* from = key + (first + c) * a.width;
      for (size_t i = 0; i < whole; ++i) std::memcpy(to + i * 64, from + i * 4, 4);
      if (rest != 0) {
        std::memset(to + whole * 64, 0, 4);
        std::memcpy(to + whole * 64, from + whole * 4, rest);
      }
      room.key_terms[first + c] = query_zero * (sum_of(from, a.width) - width * key_zero);
    }
  }
}

// Each column of values is one output of a panel.
void pack_values(const AttentionI8& a, const int8_t* value, const Room& room) noexcept {
  const size_t bytes = panel_bytes_i8(a.span);
  for (size_t first = 0; first < a.value_width; first += 16) {
    const size_t columns = a.value_width - first < 16 ? a.value_width - first : 16;
    int8_t* panel = room.value_panels + first / 16 * bytes;
    std::memset(panel, 0, kPanelHeadBytes);
    int32_t sums[16] = {};
    int8_t* to = panel + kPanelHeadBytes;
    for (size_t s = 0; s < a.span; s += 4, to += 64) {
      int8_t block[4][16] = {};
      for (size_t j = 0; j < 4 && s + j < a.span; ++j) {
        std::memcpy(block[j], value + (s + j) * a.value_width + first, columns);
      }
      for (size_t c = 0; c < 16; ++c) {
        for (size_t j = 0; j < 4; ++j) to[c * 4 + j] = block[j][c];
        sums[c] += block[0][c] + block[1][c] + block[2][c] + block[3][c];
      }
    }
    std::memcpy(room.value_sums + first, sums, 64);
  }
}

void mask_row(const AttentionI8& a, size_t row, size_t mask_at, float* scores) noexcept {
  const size_t at = mask_at + row * a.mask_row_stride;
  if (a.float_mask != nullptr) {
    const float* mask = a.float_mask + at;
    for (size_t s = 0; s < a.span; ++s) scores[s] += mask[s * a.mask_column_stride];
  }
  if (a.bool_mask != nullptr) {
    const uint8_t* mask = a.bool_mask + at;
    for (size_t s = 0; s < a.span; ++s) {
      if (mask[s * a.mask_column_stride] == 0) scores[s] = a.masked;
    }
  }
  if (a.is_causal) {
    for (size_t s = row + 1; s < a.span; ++s) scores[s] = kMinusInfinity;
  }
}

// Turns a row of sums into shares of 255, in int8 less 128; returns the sum of the shares.
uint32_t share_row(const AttentionI8& a, const Room& room, const int8_t* query, size_t row, size_t mask_at,
                   int32_t* sums, int8_t* shares) noexcept {
  const uint32_t query_term = static_cast<uint32_t>(a.key_zero_point) * sum_of(query, a.width);
  auto* scores = reinterpret_cast<float*>(sums);
  for (size_t s = 0; s < a.span; ++s) {
    const uint32_t exact = static_cast<uint32_t>(sums[s]) - query_term - room.key_terms[s];
    const float score = static_cast<float>(static_cast<int32_t>(exact)) * a.scale;
    std::memcpy(sums + s, &score, 4);
  }
  mask_row(a, row, mask_at, scores);
  float total;
  a.softmax({scores, scores, 1, a.span, false, 1.0f, &total});
  const Int8Range range = int8_range(-128, 127, -128);
  int32_t count = 0;
  for (size_t s = 0; s < a.span; ++s) {
    shares[s] = requantize(scores[s] * 255.0f, range);
    count += shares[s];
  }
  return static_cast<uint32_t>(count) + 128u * static_cast<uint32_t>(a.span);
}

void give_row(const AttentionI8& a, const Room& room, uint32_t count, const int32_t* products,
              int8_t* output) noexcept {
  const Int8Range range = int8_range(a.low, a.high, a.zero_point);
  const float factor = count == 0 ? 0.0f : a.ratio / static_cast<float>(static_cast<int32_t>(count));
  const uint32_t zero = static_cast<uint32_t>(a.value_zero_point) * count;
  for (size_t v = 0; v < a.value_width; ++v) {
    const uint32_t exact = static_cast<uint32_t>(products[v]) + 128u * room.value_sums[v] - zero;
    output[v] = requantize(static_cast<float>(static_cast<int32_t>(exact)) * factor, range);
  }
}

void attend(const AttentionI8& a) noexcept {
  const Room room(a);
  const int8_t* packed_key = nullptr;
  const int8_t* packed_value = nullptr;
  int8_t* output = a.output;
  const size_t score_width = (a.span + 15) / 16 * 16, product_width = (a.value_width + 15) / 16 * 16;
  // The last batch dimension's own strides are taken by hand below: its key is that of its group.
  size_t key_strides[kMaxBatchRank];
  size_t value_strides[kMaxBatchRank];
  for (size_t d = 0; d < a.batch_rank; ++d) {
    const bool is_last = d + 1 == a.batch_rank;
    key_strides[d] = is_last ? 0 : a.key_strides[d];
    value_strides[d] = is_last ? 0 : a.value_strides[d];
  }
  BatchWalk<4, kMaxBatchRank> walk;
  do {
    const int8_t* key = a.key + walk.offsets[1];
    const int8_t* value = a.value + walk.offsets[2];
    if (a.batch_rank > 0) {
      const size_t last = a.batch_rank - 1;
      key += walk.index[last] / a.group * a.key_strides[last];
      value += walk.index[last] / a.group * a.value_strides[last];
    }
    if (key != packed_key) pack_keys(a, key, room);
    if (value != packed_value) pack_values(a, value, room);
    packed_key = key;
    packed_value = value;
    for (size_t first = 0; first < a.length; first += kAttentionI8Rows) {
      const size_t rows = a.length - first < kAttentionI8Rows ? a.length - first : kAttentionI8Rows;
      const int8_t* query = a.query + walk.offsets[0] + first * a.width;
      a.linear({query, a.width, room.key_panels, nullptr, 0, room.scores, rows, a.span, a.width, 0, 0, 0});
      uint32_t counts[kAttentionI8Rows];
      for (size_t r = 0; r < rows; ++r) {
        counts[r] = share_row(a, room, query + r * a.width, first + r, walk.offsets[3], room.scores + r * score_width,
                              room.shares + r * a.span);
      }
      a.linear(
          {room.shares, a.span, room.value_panels, nullptr, 0, room.products, rows, a.value_width, a.span, 0, 0, 0});
      for (size_t r = 0; r < rows; ++r, output += a.value_width) {
        give_row(a, room, counts[r], room.products + r * product_width, output);
      }
    }
  } while (walk.next(a.batch_rank, a.batch, {a.query_strides, key_strides, value_strides, a.mask_strides}));
}

}  // namespace

void ALCOVE_PER_ISA(attention_i8)(const AttentionI8& a) noexcept { attend(a); }

}  // namespace alcove::kernels
