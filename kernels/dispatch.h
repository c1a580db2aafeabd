// Which kernel runs each (op, dtype) on a given instruction set?  Chosen once, when a program is opened.
#pragma once

#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/isa.h"
#include "kernels/linear/linear.h"
#include "kernels/ngram_hash/ngram_hash.h"
#include "kernels/relu/relu.h"
#include "kernels/softmax/softmax.h"
#include "kernels/topk/topk.h"

namespace alcove::kernels {

// One slot per (op, dtype) of the manifest; the names are op_dtype.
struct KernelTable {
  Isa isa;
  decltype(&ngram_hash) ngram_hash_text;
  EmbeddingBagF32Kernel* embedding_bag_f32;
  EmbeddingBagI8Kernel* embedding_bag_i8;
  LinearF32Kernel* linear_f32;
  ReluF32Kernel* relu_f32;
  SoftmaxF32Kernel* softmax_f32;
  TopkF32Kernel* topk_f32;
};

// The table lives as long as the process.  Precondition: machine_has(isa).
[[nodiscard]] const KernelTable& kernels_for(Isa isa) noexcept;

}  // namespace alcove::kernels
