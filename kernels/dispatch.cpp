// The tables are built at compile time from the manifest; a slot without a kernel stops the build.
#include "kernels/dispatch.h"

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

constexpr bool is_complete(const KernelTable& t) {
  return t.ngram_hash_text && t.embedding_bag_f32 && t.embedding_bag_i8 && t.linear_f32 && t.relu_f32 && t.softmax_f32 &&
         t.topk_f32;
}
static_assert(is_complete(kTables[0]) && is_complete(kTables[1]) && is_complete(kTables[2]));

}  // namespace

const KernelTable& kernels_for(Isa isa) noexcept { return kTables[static_cast<int>(isa)]; }

}  // namespace alcove::kernels
