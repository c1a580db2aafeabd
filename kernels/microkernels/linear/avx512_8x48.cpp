// AVX-512 linear: 8 rows x 3 panels, 12 x 2 or 14 x 1, so that up to 28 accumulators fill the registers; few rows, mostly the
// only one, x up to 8 panels, so that enough multiply-adds are under way.
#include "kernels/simd/vector_avx512.h"
#include "kernels/microkernels/linear/tiles.h"

namespace alcove::kernels {

namespace {

using V = Avx512;
using One = Tiles<V, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
using Two = Tiles<V, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>;
using Three = Tiles<V, 3, 1, 2, 3, 4, 5, 6, 7, 8>;
using Four = Tiles<V, 4, 1, 2, 3, 4, 5>;
using Eight = Tiles<V, 8, 1, 2>;
using Half = Halves<Avx512Half, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
constexpr size_t kFewestRows = 6;

}  // namespace

void linear_f32_avx512_8x48(const LinearF32& a) noexcept {
  size_t panel = 0;
  const bool has_half = ends_with_half(a, kFewestRows);
  size_t left = (a.n + 15) / 16 - (has_half ? 1 : 0);
  const auto take = [&](size_t panels, auto&& run) {
    run(a, panel);
    panel += panels;
    left -= panels;
  };
  if (a.m <= 2) {
    while (left >= 8) take(8, Eight::run);
  }
  if (a.m <= 5) {
    while (left >= 4) take(4, Four::run);
  }
  while (left == 3 || left > 4) take(3, Three::run);
  while (left >= 2) take(2, Two::run);
  if (left == 1) take(1, One::run);
  if (has_half) Half::run(a, panel);
}

}  // namespace alcove::kernels
