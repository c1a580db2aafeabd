"""Attributes of the operators by name.

Generated from kernels/manifest.inc by `python -m tools.operator_attributes`; do not edit.
"""
# ruff: noqa: D101, E501, E701, E702, I001
# fmt: off

from typing import ClassVar

from alcove.runtime.format.named_attributes import Attributes

class NgramHashAttributes(Attributes): min_order: int; max_order: int; buckets: int; seed: int
class TextEmbeddingBagAttributes(Attributes): mode: int
class LinearAttributes(Attributes): has_residual: int; activation: int; low: float; high: float
class SoftmaxAttributes(Attributes): is_log: int
class TopkAttributes(Attributes): k: int; is_largest: int
class UnaryAttributes(Attributes): function: int; a: float; b: float; c: float
class BinaryAttributes(Attributes): function: int
class AsStridedCopyAttributes(Attributes): LENGTHS: ClassVar = {"strides": 8}; offset: int; strides: tuple[int, ...]
class AsStridedScatterAttributes(Attributes): LENGTHS: ClassVar = {"strides": 8}; offset: int; strides: tuple[int, ...]
class ConcatAttributes(Attributes): axis: int
class PadAttributes(Attributes): LENGTHS: ClassVar = {"before": 8, "after": 8}; before: tuple[int, ...]; after: tuple[int, ...]; mode: int; bits: int
class ArangeAttributes(Attributes): start: float; step: float
class FillAttributes(Attributes): bits: int
class IndexSelectAttributes(Attributes): axis: int; wraps: int
class GatherAttributes(Attributes): axis: int
class ScatterAttributes(Attributes): axis: int; mode: int; includes_self: int
class IndexPutAttributes(Attributes): axis: int; mode: int; includes_self: int; wraps: int
class RavelMultiIndexAttributes(Attributes): LENGTHS: ClassVar = {"bounds": 8}; bounds: tuple[int, ...]
class TrilTriuAttributes(Attributes): diagonal: int; is_upper: int
class SearchsortedAttributes(Attributes): is_right: int
class EmbeddingBagOffsetsAttributes(Attributes): mode: int; padding: int; has_offsets: int; has_weights: int
class ReduceAttributes(Attributes): function: int; first_axis: int; axis_count: int
class ScanAttributes(Attributes): function: int; axis: int
class ScanExtremeAttributes(Attributes): is_greatest: int; axis: int
class SortAttributes(Attributes): is_descending: int
class LayerNormAttributes(Attributes): is_rms: int; axis_count: int; mask: int; eps: float; activation: int; low: float; high: float
class GroupNormAttributes(Attributes): groups: int; mask: int; eps: float; activation: int; low: float; high: float
class MatmulAttributes(Attributes): is_transposed: int
class AttentionAttributes(Attributes): scale: float; is_causal: int; masked: float; empty_is_nan: int
class Conv2dAttributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_top: int; pad_left: int; pad_bottom: int; pad_right: int; dilation_h: int; dilation_w: int; groups: int; has_residual: int; activation: int; low: float; high: float
class DepthwiseConv2dAttributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_top: int; pad_left: int; pad_bottom: int; pad_right: int; dilation_h: int; dilation_w: int; activation: int; low: float; high: float
class ConvTranspose2dAttributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_top: int; pad_left: int; dilation_h: int; dilation_w: int; groups: int
class WinogradConv2dAttributes(Attributes): pad_top: int; pad_left: int; pad_bottom: int; pad_right: int; has_residual: int; activation: int; low: float; high: float
class SeparableConv2dAttributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_top: int; pad_left: int; pad_bottom: int; pad_right: int; rows: int; has_expand: int; has_residual: int; expand_activation: int; expand_low: float; expand_high: float; depthwise_activation: int; depthwise_low: float; depthwise_high: float; activation: int; low: float; high: float
class SqueezeExciteConv2dAttributes(Attributes): has_residual: int; squeeze_activation: int; squeeze_low: float; squeeze_high: float; squeeze_function: int; excite_activation: int; excite_low: float; excite_high: float; excite_function: int; activation: int; low: float; high: float
class Pool2dAttributes(Attributes): mode: int; kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_h: int; pad_w: int; dilation_h: int; dilation_w: int; ceil_mode: int; count_include_pad: int; divisor: int
class AdaptivePool2dAttributes(Attributes): mode: int
class MaxPool2dIndicesAttributes(Attributes): adaptive: int; kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_h: int; pad_w: int; dilation_h: int; dilation_w: int; ceil_mode: int
class Resize2dAttributes(Attributes): mode: int; align_corners: int; scale_h: float; scale_w: float
class GridSampleAttributes(Attributes): mode: int; padding: int; align_corners: int
class RnnAttributes(Attributes): is_reversed: int; is_relu: int
class GruAttributes(Attributes): is_reversed: int
class LstmAttributes(Attributes): is_reversed: int
class QuantizeAttributes(Attributes): scale: float; zero_point: int
class DequantizeAttributes(Attributes): scale: float; zero_point: int
class LinearI8Attributes(Attributes): zero_point: int; low: int; high: int
class Conv2dI8Attributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_top: int; pad_left: int; pad_bottom: int; pad_right: int; dilation_h: int; dilation_w: int; groups: int; input_zero_point: int; zero_point: int; low: int; high: int
class DepthwiseConv2dI8Attributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_top: int; pad_left: int; pad_bottom: int; pad_right: int; dilation_h: int; dilation_w: int; input_zero_point: int; zero_point: int; low: int; high: int
class AddI8Attributes(Attributes): a_ratio: float; b_ratio: float; a_zero_point: int; b_zero_point: int; zero_point: int; low: int; high: int
class LinearF32Qb4wAttributes(Attributes): group: int
class MeanI8Attributes(Attributes): first_axis: int; axis_count: int; keeps_axes: int; ratio: float; input_zero_point: int; zero_point: int; low: int; high: int
class MulI8Attributes(Attributes): ratio: float; a_zero_point: int; b_zero_point: int; zero_point: int; low: int; high: int
class MaxPool2dI8Attributes(Attributes): kernel_h: int; kernel_w: int; stride_h: int; stride_w: int; pad_h: int; pad_w: int; dilation_h: int; dilation_w: int; ceil_mode: int
class WriteRowsAttributes(Attributes): axis: int; wraps: int
class LinearQd8Qb4wAttributes(Attributes): group: int
class CachedAttentionAttributes(Attributes): scale: float; masked: float; empty_is_nan: int
class EmbeddingPanelsAttributes(Attributes): rows: int; form: int; group: int
class SpecialAttributes(Attributes): function: int
class FftAttributes(Attributes): first: int; scale: float
class RfftAttributes(Attributes): first: int; scale: float
class IrfftAttributes(Attributes): first: int; scale: float
class AttentionI8Attributes(Attributes): scale: float; is_causal: int; masked: float; query_zero_point: int; key_zero_point: int; value_zero_point: int; ratio: float; zero_point: int; low: int; high: int
class TokenizeAttributes(Attributes): max_bytes: int
class PointwiseConv2dAttributes(Attributes): activation: int; low: float; high: float
class CtcBeamAttributes(Attributes): width: int; blank: int
class GridSample3dAttributes(Attributes): mode: int; padding: int; align_corners: int
class ConnectedComponentsAttributes(Attributes): connectivity: int
class NonMaximumSuppressionAttributes(Attributes): iou_threshold: float; score_threshold: float
class CompositeAttributes(Attributes): is_channels_last: int; is_resized: int; align_corners: int; scale_h: float; scale_w: float
