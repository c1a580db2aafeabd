// A table is filled line by line of the manifest, so that one more instruction set costs no table; a slot without a scalar
// kernel stops the build.  A build of chosen operators (tools/selective.py) has the lines of ALCOVE_CHOSEN, and null elsewhere: the
// verifier refuses what would call there.
#include "kernels/dispatch.h"

#include <cstddef>

namespace alcove::kernels {

#if !defined(ALCOVE_CHOSEN)
#define ALCOVE_CHOSEN "kernels/manifest.inc"

// Each scalar line fills one slot for every instruction set.
static constexpr size_t kScalarKernels = 0
#define ALCOVE_KERNEL(op, dtype, needs, function) +(Isa::needs == Isa::scalar ? 1 : 0)
#include "kernels/manifest.inc"
    ;
static_assert(kScalarKernels == (sizeof(KernelTable) - offsetof(KernelTable, ngram_hash_text)) / sizeof(void*));
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
