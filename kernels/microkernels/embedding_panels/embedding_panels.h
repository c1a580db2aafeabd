// Rows of a table that lies as the weights of a product do, so that both share its bytes: output[i] = row ids[i], which is an
// output of the product with its weights for each input.
//   f32     a weight as it is (kernels/microkernels/linear)
//   i8      float(q) * scale of the row (kernels/requantize.h)
//   i4      float(q) * scale of the row and group (kernels/microkernels/linear_f32_qb4w)
//   half_i4 the same (kernels/microkernels/linear_qd8_qb4w)
//   f16, bf16  as f32, in 16 bits (kernels/half.h); a file calls them f32
// a NaN as 0x7FC00000.  Returns the position of the first id outside [0, rows), or `count` if there is none; stops there.  The
// caller has checked: group is 32 or 64 for i4 and half_i4; the panels are those of [rows][width]; the output overlaps no
// input.  No pointer needs more alignment than its element.  Any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace alcove::kernels {

enum class PanelForm : uint8_t { f32, i8, i4, half_i4, f16, bf16 };
inline constexpr int64_t kPanelForms = 4;  // that a file names

struct EmbeddingPanels {
  const void* ids;  // int64 or int32
  bool are_wide;
  size_t count;
  const int8_t* panels;
  PanelForm form;
  size_t rows, width, group;
  float* output;  // [count][width]
};

using EmbeddingPanelsKernel = size_t(const EmbeddingPanels&) noexcept;

EmbeddingPanelsKernel embedding_panels_f32_scalar;

// Bytes of one panel, of 16 rows.
[[nodiscard]] size_t panel_bytes(PanelForm form, size_t width, size_t group) noexcept;

}  // namespace alcove::kernels
