// The tables are built at compile time from the manifest; a slot without a kernel stops the build.
#include "kernels/dispatch.h"

#include <cstddef>

namespace alcove::kernels {

namespace {

constexpr KernelTable make_table(Isa isa) noexcept {
  KernelTable table{};
  table.isa = isa;
#define ALCOVE_KERNEL(op, dtype, needs, function) \
  if (Isa::needs <= isa) table.op##_##dtype = &function;
#include "kernels/manifest.inc"
  return table;
}

constexpr KernelTable kTables[kIsaCount] = {make_table(Isa::scalar), make_table(Isa::avx2), make_table(Isa::avx512)};

// Each scalar line fills one slot for every instruction set.
constexpr size_t kScalarKernels = 0
#define ALCOVE_KERNEL(op, dtype, needs, function) +(Isa::needs == Isa::scalar ? 1 : 0)
#include "kernels/manifest.inc"
    ;
static_assert(kScalarKernels == (sizeof(KernelTable) - offsetof(KernelTable, ngram_hash_text)) / sizeof(void*));

}  // namespace

const KernelTable& kernels_for(Isa isa) noexcept { return kTables[static_cast<int>(isa)]; }

}  // namespace alcove::kernels
