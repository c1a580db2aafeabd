// Asks the processor and the operating system (which must save the wide registers) once per call; the answers are cached
// by the compiler's runtime.
#include "kernels/isa.h"

namespace alcove::kernels {

namespace {
constexpr const char* kNames[kIsaCount] = {"scalar", "avx2", "avx512"};
}

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
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return machine_has(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

Isa best_isa() noexcept {
  Isa best = Isa::scalar;
  for (int i = 0; i < kIsaCount; ++i) {
    if (machine_has(static_cast<Isa>(i))) best = static_cast<Isa>(i);
  }
  return best;
}

}  // namespace alcove::kernels
