// Each row is one run that stays and one of zeros.
#include "kernels/microkernels/tril_triu/tril_triu.h"

#include <cstring>

namespace alcove::kernels {

void tril_triu_scalar(const TrilTriu& a) noexcept {
  const size_t pitch = a.columns * a.element_bytes;
  const auto columns = static_cast<int64_t>(a.columns);
  for (size_t m = 0; m < a.matrices; ++m) {
    for (size_t r = 0; r < a.rows; ++r) {
      // The columns before `split` are the left part: kept in a lower triangle, zero in an upper one.
      int64_t split = static_cast<int64_t>(r) + a.diagonal + (a.is_upper ? 0 : 1);
      split = split < 0 ? 0 : (split > columns ? columns : split);
      const size_t left = static_cast<size_t>(split) * a.element_bytes;
      const size_t start = (m * a.rows + r) * pitch;
      const uint8_t* from = a.input + start;
      uint8_t* to = a.output + start;
      if (a.is_upper) {
        std::memset(to, 0, left);
        if (to != from) std::memcpy(to + left, from + left, pitch - left);
      } else {
        if (to != from) std::memcpy(to, from, left);
        std::memset(to + left, 0, pitch - left);
      }
    }
  }
}

}  // namespace alcove::kernels
