// Rows out of panels: few, and a cache line for every few numbers, so that one compilation does for all instruction sets.
#include <bit>
#include <cstring>

#include "kernels/canonical.h"
#include "kernels/half.h"
#include "kernels/microkernels/embedding_panels/embedding_panels.h"
#include "kernels/microkernels/linear/linear.h"
#include "kernels/microkernels/linear_f32_qb4w/linear_f32_qb4w.h"
#include "kernels/microkernels/linear_qd8_qb4w/linear_qd8_qb4w.h"
#include "kernels/requantize.h"

namespace alcove::kernels {

namespace {

template <typename T>
T load(const int8_t* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Four bits of a word, less 8.
float four_bits(uint32_t word, size_t from) noexcept {
  return static_cast<float>(static_cast<int32_t>(word >> from & 15u) - 8);
}

// Column `c` of a panel.
void copy_row(const EmbeddingPanels& a, const int8_t* panel, size_t c, float* y) noexcept {
  switch (a.form) {
    case PanelForm::f32:
      for (size_t e = 0; e < a.width; ++e) y[e] = canonical(load<float>(panel + 64 * (e + 1) + 4 * c));
      return;
    case PanelForm::f16:
      for (size_t e = 0; e < a.width; ++e) y[e] = widen_f16(load<uint16_t>(panel + 32 * (e + 1) + 2 * c));
      return;
    case PanelForm::bf16:
      for (size_t e = 0; e < a.width; ++e) y[e] = widen_bf16(load<uint16_t>(panel + 32 * (e + 1) + 2 * c));
      return;
    case PanelForm::i8: {
      const float scale = load<float>(panel + 64 + 4 * c);
      const int8_t* bytes = panel + kPanelHeadBytes + 4 * c;
      for (size_t e = 0; e < a.width; ++e) y[e] = canonical(static_cast<float>(bytes[e / 4 * 64 + e % 4]) * scale);
      return;
    }
    case PanelForm::i4:
      for (size_t e = 0; e < a.width; ++e) {
        const int8_t* block = panel + e / a.group * (64 + 8 * a.group);
        const auto word = load<uint32_t>(block + 64 + e % a.group / 8 * 64 + 4 * c);
        y[e] = canonical(four_bits(word, e % 8 * 4) * load<float>(block + 4 * c));
      }
      return;
    case PanelForm::half_i4: {
      const int8_t* words = panel + panel_head_bytes_qb4(a.width, a.group);
      for (size_t e = 0; e < a.width; ++e) {
        const auto half = static_cast<uint32_t>(load<uint16_t>(panel + e / a.group * 32 + 2 * c));
        const auto word = load<uint32_t>(words + e / 8 * 64 + 4 * c);
        y[e] = canonical(four_bits(word, e % 4 * 8 + e % 8 / 4 * 4) * std::bit_cast<float>(half << 16));
      }
      return;
    }
  }
}

}  // namespace

size_t panel_bytes(PanelForm form, size_t width, size_t group) noexcept {
  switch (form) {
    case PanelForm::f32: return panel_floats<size_t>(1, width) * sizeof(float);
    case PanelForm::f16:
    case PanelForm::bf16: return panel_floats<size_t>(1, width) * sizeof(uint16_t);
    case PanelForm::i8: return panel_bytes_i8(width);
    case PanelForm::i4: return panel_bytes_i4(width, group);
    case PanelForm::half_i4: return panel_bytes_qb4(width, group);
  }
  return 0;
}

size_t embedding_panels_f32_scalar(const EmbeddingPanels& a) noexcept {
  const size_t bytes = panel_bytes(a.form, a.width, a.group);
  for (size_t i = 0; i < a.count; ++i) {
    const int64_t id = a.are_wide ? static_cast<const int64_t*>(a.ids)[i] : static_cast<const int32_t*>(a.ids)[i];
    if (id < 0 || static_cast<uint64_t>(id) >= a.rows) return i;
    const auto row = static_cast<size_t>(id);
    copy_row(a, a.panels + row / 16 * bytes, row % 16, a.output + i * a.width);
  }
  return a.count;
}

}  // namespace alcove::kernels
