// Insertion into the sorted k best so far.  For the few hundred values of a classifier a vector form gains nothing.
#include "kernels/canonical.h"
#include "kernels/topk/topk.h"

namespace alcove::kernels {

namespace {

// Whether `a` comes before `b`, given that b's index is lower.
bool precedes(float a, float b) noexcept { return a > b || (b != b && a == a); }

}  // namespace

void topk_f32_reference(const TopkF32& a) noexcept {
  size_t filled = 0;
  for (size_t i = 0; i < a.n; ++i) {
    const float value = canonical(a.input[i]);
    if (filled == a.k && !precedes(value, a.values[a.k - 1])) continue;
    size_t place = filled < a.k ? filled++ : a.k - 1;
    for (; place > 0 && precedes(value, a.values[place - 1]); --place) {
      a.values[place] = a.values[place - 1];
      a.indices[place] = a.indices[place - 1];
    }
    a.values[place] = value;
    a.indices[place] = static_cast<int32_t>(i);
  }
}

}  // namespace alcove::kernels
