#include "kernels/canonical.h"
#include "kernels/math/bessel.h"
#include "kernels/math/gamma.h"
#include "kernels/math/normal.h"
#include "kernels/microkernels/special/special.h"

namespace alcove::kernels {

namespace {

double apply_function(SpecialFunction function, float x, float y) noexcept {
  switch (function) {
    case SpecialFunction::k_lgamma: return log_gamma(x);
    case SpecialFunction::k_digamma: return digamma(x);
    case SpecialFunction::k_trigamma: return trigamma(x);
    case SpecialFunction::k_zeta: return hurwitz_zeta(x, y);
    case SpecialFunction::k_erfinv: return erfinv(x);
    case SpecialFunction::k_erfcx: return erfcx(x);
    case SpecialFunction::k_ndtri: return ndtri(x);
    case SpecialFunction::k_log_ndtr: return log_ndtr(x);
    case SpecialFunction::k_i0: return bessel_i(x, 0);
    case SpecialFunction::k_i1: return bessel_i(x, 1);
    case SpecialFunction::k_i0e: return scaled_bessel_i(x, 0);
    case SpecialFunction::k_i1e: return scaled_bessel_i(x, 1);
    case SpecialFunction::k_k0: return bessel_k(x, 0);
    case SpecialFunction::k_k1: return bessel_k(x, 1);
    case SpecialFunction::k_k0e: return scaled_bessel_k(x, 0);
    case SpecialFunction::k_k1e: return scaled_bessel_k(x, 1);
    case SpecialFunction::k_j0: return bessel_j(x, 0);
    case SpecialFunction::k_j1: return bessel_j(x, 1);
    case SpecialFunction::k_y0: return bessel_y(x, 0);
    case SpecialFunction::k_y1: return bessel_y(x, 1);
    case SpecialFunction::k_spherical_j0: return spherical_bessel_j0(x);
  }
  return 0.0;
}

constexpr bool has_two_operands(SpecialFunction function) noexcept {
  switch (function) {
#define ALCOVE_SPECIAL(number, name, operands) \
  case SpecialFunction::k_##name: return (operands) == 2;
#include "kernels/microkernels/special/functions.inc"
  }
  return false;
}

}  // namespace

void special_f32_scalar(const SpecialF32& p) noexcept {
  const bool has_y = has_two_operands(p.function);
  for (size_t i = 0; i < p.count; ++i) {
    p.output[i] = canonical(round_f64(apply_function(p.function, p.x[i], has_y ? p.y[i] : 0.0f)));
  }
}

}  // namespace alcove::kernels
