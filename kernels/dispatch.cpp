// A table is filled line by line of the manifest, so that one more instruction set costs no table; a slot without a scalar
// kernel stops the build.  A build of chosen operators (tools/selective.py) has the lines of ALCOVE_CHOSEN, and null elsewhere: the
// verifier refuses what would call there.
#include "kernels/dispatch.h"

namespace alcove::kernels {

#if !defined(ALCOVE_CHOSEN)
#define ALCOVE_CHOSEN "kernels/manifest.inc"
#endif

KernelTable kernels_for(Isa isa) noexcept {
  KernelTable table{};
  table.isa = isa;
#define ALCOVE_KERNEL(op, dtype, needs, function) \
  if (Isa::needs <= isa) table.op##_##dtype = &function;
#include ALCOVE_CHOSEN
  return table;
}

}  // namespace alcove::kernels
