/* Sets the floating-point modes that a host app may have left behind, and reads them back. */
#include <fenv.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* Rounding up, down or to zero; denormals flushed to zero, in and out. */
const uint32_t hostile_modes[] = {0x1F80 | 0x4000, 0x1F80 | 0x2000, 0x1F80 | 0x6000, 0x1F80 | 0x8040, 0x1F80 | 0xE040};
uint32_t get_mode(void) { return _mm_getcsr() & 0xFFC0; }
void set_mode(uint32_t mode) { _mm_setcsr(mode); }
#else
const uint32_t hostile_modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
uint32_t get_mode(void) { return (uint32_t)fegetround(); }
void set_mode(uint32_t mode) { fesetround((int)mode); }
#endif

uint32_t hostile_mode(int index) { return hostile_modes[index]; }
int hostile_mode_count(void) { return (int)(sizeof(hostile_modes) / sizeof(hostile_modes[0])); }
/* Whether the mode in force shows in arithmetic. */
float third(void) {
  volatile float one = 1.0f, three = 3.0f;
  return one / three;
}
