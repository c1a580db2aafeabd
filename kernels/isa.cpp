// Asks the processor and the operating system (which must save the wide registers) once per call; the answers are cached
// by the compiler's runtime.
#include "kernels/isa.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace alcove::kernels {

namespace {

constexpr const char* kNames[kIsaCount] = {"scalar", "avx2", "avx512", "avx512_vnni", "avx512_vbmi", "neon", "neon_dotprod"};

#if defined(__aarch64__)
bool has_dot_products() noexcept {
#if defined(__linux__)
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP, which older headers lack
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return false;  // no way to ask that is the same everywhere
#endif
}
#endif

}  // namespace

const char* isa_name(Isa isa) noexcept { return kNames[static_cast<int>(isa)]; }

bool isa_from_name(std::string_view name, Isa& isa) noexcept {
  for (int i = 0; i < kIsaCount; ++i) {
    if (name == kNames[i]) {
      isa = static_cast<Isa>(i);
      return true;
    }
  }
  return false;
}

bool machine_has(Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar:
      return true;
#if defined(__x86_64__)
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512:
      return machine_has(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::avx512_vnni:
      return machine_has(Isa::avx512) && __builtin_cpu_supports("avx512vnni");
    case Isa::avx512_vbmi:
      return machine_has(Isa::avx512_vnni) && __builtin_cpu_supports("avx512vbmi");
#elif defined(__aarch64__)
    case Isa::neon:
      return true;
    case Isa::neon_dotprod:
      return has_dot_products();
#endif
    default:
      return false;
  }
}

Isa best_isa() noexcept {
  Isa best = Isa::scalar;
  for (int i = 0; i < kIsaCount; ++i) {
    if (machine_has(static_cast<Isa>(i))) best = static_cast<Isa>(i);
  }
  return best;
}

}  // namespace alcove::kernels
