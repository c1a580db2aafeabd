// Which kernel runs each (op, dtype) on a given instruction set?  Chosen once, when a program is opened.
#pragma once

#include "kernels/arange/arange.h"
#include "kernels/attention/attention.h"
#include "kernels/binary/binary.h"
#include "kernels/cast/cast.h"
#include "kernels/concat/concat.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv_transpose2d/conv_transpose2d.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/embedding_bags/embedding_bags.h"
#include "kernels/fill/fill.h"
#include "kernels/gather/gather.h"
#include "kernels/grid_sample/grid_sample.h"
#include "kernels/group_norm/group_norm.h"
#include "kernels/isa.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear_index/linear_index.h"
#include "kernels/matmul/matmul.h"
#include "kernels/ngram_hash/ngram_hash.h"
#include "kernels/pad/pad.h"
#include "kernels/pool2d/pool2d.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/reduce/reduce.h"
#include "kernels/relu/relu.h"
#include "kernels/reshape/reshape.h"
#include "kernels/resize2d/resize2d.h"
#include "kernels/scan/scan.h"
#include "kernels/scatter/scatter.h"
#include "kernels/scatter_rows/scatter_rows.h"
#include "kernels/searchsorted/searchsorted.h"
#include "kernels/softmax/softmax.h"
#include "kernels/sort/sort.h"
#include "kernels/strided_copy/strided_copy.h"
#include "kernels/strided_scatter/strided_scatter.h"
#include "kernels/take/take.h"
#include "kernels/topk/topk.h"
#include "kernels/triangle/triangle.h"
#include "kernels/unary/unary.h"
#include "kernels/where/where.h"

namespace alcove::kernels {

// One slot per (op, dtype) of the manifest; the names are op_dtype.
struct KernelTable {
  Isa isa;
  decltype(&ngram_hash) ngram_hash_text;
  EmbeddingBagF32Kernel* embedding_bag_f32;
  EmbeddingBagI8Kernel* embedding_bag_i8;
  LinearF32Kernel* linear_f32;
  ReluF32Kernel* relu_f32;
  UnaryF32Kernel* unary_f32;
  UnaryI8Kernel* unary_i8;
  UnaryI32Kernel* unary_i32;
  UnaryI64Kernel* unary_i64;
  UnaryU8Kernel* unary_u8;
  UnaryU8Kernel* unary_bool;
  BinaryKernel<float>* binary_f32;
  BinaryKernel<int8_t>* binary_i8;
  BinaryKernel<int32_t>* binary_i32;
  BinaryKernel<int64_t>* binary_i64;
  BinaryKernel<uint8_t>* binary_u8;
  BinaryKernel<uint8_t>* binary_bool;
  WhereKernel* where_any;
  CastKernel* cast_any;
  SoftmaxF32Kernel* softmax_f32;
  TopkKernel* topk_f32;
  TopkKernel* topk_i32;
  TopkKernel* topk_i64;
  StridedCopyKernel* strided_copy_any;
  StridedScatterKernel* strided_scatter_any;
  ConcatKernel* concat_any;
  PadKernel* pad_any;
  ReshapeKernel* reshape_any;
  ArangeF32Kernel* arange_f32;
  ArangeI32Kernel* arange_i32;
  ArangeI64Kernel* arange_i64;
  FillKernel* fill_any;
  TakeKernel* take_any;
  GatherKernel* gather_any;
  ScatterKernel* scatter_any;
  ScatterKernel* scatter_f32;
  ScatterKernel* scatter_i32;
  ScatterKernel* scatter_i64;
  ScatterRowsKernel* scatter_rows_any;
  ScatterRowsKernel* scatter_rows_f32;
  ScatterRowsKernel* scatter_rows_i32;
  ScatterRowsKernel* scatter_rows_i64;
  LinearIndexKernel* linear_index_any;
  TriangleKernel* triangle_any;
  SearchSortedF32Kernel* searchsorted_f32;
  SearchSortedI32Kernel* searchsorted_i32;
  SearchSortedI64Kernel* searchsorted_i64;
  EmbeddingBagsF32Kernel* embedding_bags_f32;
  MatmulF32Kernel* matmul_f32;
  AttentionF32Kernel* attention_f32;
  RecurrentF32Kernel* rnn_f32;
  RecurrentF32Kernel* gru_f32;
  RecurrentF32Kernel* lstm_f32;
  Conv2dF32Kernel* conv2d_f32;
  DepthwiseConv2dF32Kernel* depthwise_conv2d_f32;
  ConvTranspose2dF32Kernel* conv_transpose2d_f32;
  Pool2dF32Kernel* pool2d_f32;
  MaxPool2dIndicesF32Kernel* max_pool2d_indices_f32;
  Resize2dF32Kernel* resize2d_f32;
  GridSampleF32Kernel* grid_sample_f32;
  ReduceKernel* reduce_f32;
  ReduceKernel* reduce_i32;
  ReduceKernel* reduce_i64;
  ReduceKernel* reduce_i8;
  ReduceKernel* reduce_u8;
  ScanKernel* scan_f32;
  ScanKernel* scan_i64;
  SortKernel* sort_f32;
  SortKernel* sort_i32;
  SortKernel* sort_i64;
  SortKernel* sort_u8;
  LayerNormKernel* layer_norm_f32;
  GroupNormKernel* group_norm_f32;
};

// The table lives as long as the process.  Precondition: machine_has(isa).
[[nodiscard]] const KernelTable& kernels_for(Isa isa) noexcept;

}  // namespace alcove::kernels
