// Asks the processor and the operating system (which must save the wide registers) at each call. Not by the compiler's runtime,
// whose table of all processors takes 6 kB.
#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace alcove::kernels {

namespace {

constexpr char kNames[kIsaCount][13] = {"scalar",      "avx2", "avx512",       "avx512_vnni",
                                        "avx512_vbmi", "neon", "neon_dotprod", "neon_i8mm"};

#if defined(__aarch64__)
#if defined(__APPLE__)
bool has_feature(const char* name) noexcept {
  int value = 0;
  size_t size = sizeof(value);
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_dot_products() noexcept { return has_feature("hw.optional.arm.FEAT_DotProd"); }
bool has_matrix_products() noexcept { return has_feature("hw.optional.arm.FEAT_I8MM"); }
#elif defined(__linux__)
// HWCAP_ASIMDDP and HWCAP2_I8MM, which older headers lack.
constexpr unsigned long kDotProducts = 1ul << 20, kMatrixProducts = 1ul << 13;
bool has_dot_products() noexcept { return (getauxval(AT_HWCAP) & kDotProducts) != 0; }
bool has_matrix_products() noexcept { return (getauxval(AT_HWCAP2) & kMatrixProducts) != 0; }
#else
// There is no way to ask that is the same everywhere.
bool has_dot_products() noexcept { return false; }
bool has_matrix_products() noexcept { return false; }
#endif
#endif

#if defined(__x86_64__)
// Bits of CPUID leaf 7 and of XCR0, as the processor's manual numbers them.
constexpr uint32_t kAvx2 = 1u << 5, kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;   // EBX; F, DQ, BW, VL
constexpr uint32_t kVbmi = 1u << 1, kVnni = 1u << 11;                                      // ECX
constexpr uint32_t kFma = 1u << 12, kXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;  // ECX of leaf 1
constexpr uint32_t kSavesYmm = 0x06, kSavesZmm = 0xE6;

bool has(uint32_t ebx, uint32_t ecx, uint32_t saved) noexcept {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kFirst = kFma | kXsave | kAvx | kF16c;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kFirst) != kFirst) return false;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & saved) != saved || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (b & ebx) == ebx && (c & ecx) == ecx;
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
    case Isa::scalar: return true;
#if defined(__x86_64__)
    case Isa::avx2: return has(kAvx2, 0, kSavesYmm);
    case Isa::avx512: return has(kAvx2 | kAvx512, 0, kSavesZmm);
    case Isa::avx512_vnni: return has(kAvx2 | kAvx512, kVnni, kSavesZmm);
    case Isa::avx512_vbmi: return has(kAvx2 | kAvx512, kVnni | kVbmi, kSavesZmm);
#elif defined(__aarch64__)
    case Isa::neon: return true;
    case Isa::neon_dotprod: return has_dot_products();
    case Isa::neon_i8mm: return has_dot_products() && has_matrix_products();
#endif
    default: return false;
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
