// Numbers at equal distances.
#include "kernels/microkernels/arange/arange.h"

#include "kernels/canonical.h"

namespace alcove::kernels {

void arange_f32_scalar(const Arange<float>& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) {
    a.output[i] = canonical(static_cast<float>(a.start + a.step * static_cast<double>(i)));
  }
}

void arange_i32_scalar(const Arange<int32_t>& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) {
    a.output[i] = static_cast<int32_t>(a.start + a.step * static_cast<double>(i));
  }
}

void arange_i64_scalar(const Arange<int64_t>& a) noexcept {
  for (size_t i = 0; i < a.count; ++i) {
    a.output[i] = static_cast<int64_t>(a.start + a.step * static_cast<double>(i));
  }
}

}  // namespace alcove::kernels
