// Sets how a thread rounds: to nearest even, denormals kept, no traps, so that a run computes the same whatever the host app set.
// On ARM besides: a NaN that an operation gives is the canonical one (kernels/canonical.h), whatever NaN it got.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace alcove {

// For as long as it lives, of the thread that made it.
class FloatMode {
 public:
#if defined(__x86_64__)
  FloatMode() noexcept : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~FloatMode() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  FloatMode() noexcept {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(uint64_t{1} << 25));  // DN
  }
  ~FloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
#error "say here how this processor's rounding and denormal modes are set"
#endif
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  uint64_t saved_;
#endif
};

}  // namespace alcove
