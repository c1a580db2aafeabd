// NEON linear: 5 rows x 1 panel, whose 20 accumulators leave registers for four factors of each row and the weights of one k;
// few rows, mostly the only one, x up to 4 panels, so that enough multiply-adds are under way.
#include "kernels/microkernels/linear/tiles.h"
#include "kernels/simd/vector_neon.h"

namespace alcove::kernels {

namespace {

using One = Tiles<Neon, 1, 1, 2, 3, 4, 5>;
using Two = Tiles<Neon, 2, 1, 2>;
using Four = Tiles<Neon, 4, 1>;
using Half = Halves<Neon, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10>;
constexpr size_t kFewestRows = 4;

}  // namespace

void linear_f32_neon_5x16(const LinearF32& a) noexcept {
  const bool has_quarter = a.m >= kFewestRows && (a.n - 1) % 16 < Neon::kWidth && a.k <= kLongestChain;
  const bool has_half = !has_quarter && ends_with_half(a, kFewestRows);
  const size_t panels = (a.n + 15) / 16 - (has_half || has_quarter ? 1 : 0);
  size_t panel = 0;
  if (a.m == 1) {
    for (; panel + 4 <= panels; panel += 4) Four::run(a, panel);
  }
  if (a.m <= 2) {
    for (; panel + 2 <= panels; panel += 2) Two::run(a, panel);
  }
  for (; panel < panels; ++panel) One::run(a, panel);
  if (has_half) Half::run(a, panel);
  if (has_quarter) run_whole<Neon, 1, 1, 2, 3, 4, 5, 6, 7, 8>(a, panel);  // a vector, whole or not
}

}  // namespace alcove::kernels
