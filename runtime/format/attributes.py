"""Attributes of the operators by name.

Generated from kernels/manifest.inc by `python -m tools.operator_attributes`; do not edit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from alcove.runtime.format.named_attributes import Attributes


@dataclass(frozen=True, kw_only=True)
class NgramHashAttributes(Attributes):
    """Of `ngram_hash`."""

    min_order: int
    max_order: int
    buckets: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class EmbeddingBagAttributes(Attributes):
    """Of `embedding_bag`."""

    mode: int


@dataclass(frozen=True, kw_only=True)
class LinearAttributes(Attributes):
    """Of `linear`."""

    has_residual: int
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class SoftmaxAttributes(Attributes):
    """Of `softmax`."""

    is_log: int


@dataclass(frozen=True, kw_only=True)
class TopkAttributes(Attributes):
    """Of `topk`."""

    k: int
    is_largest: int


@dataclass(frozen=True, kw_only=True)
class UnaryAttributes(Attributes):
    """Of `unary`."""

    function: int
    a: float
    b: float
    c: float


@dataclass(frozen=True, kw_only=True)
class BinaryAttributes(Attributes):
    """Of `binary`."""

    function: int


@dataclass(frozen=True, kw_only=True)
class StridedCopyAttributes(Attributes):
    """Of `strided_copy`."""

    LENGTHS: ClassVar = {"strides": 8}

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StridedScatterAttributes(Attributes):
    """Of `strided_scatter`."""

    LENGTHS: ClassVar = {"strides": 8}

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ConcatAttributes(Attributes):
    """Of `concat`."""

    axis: int


@dataclass(frozen=True, kw_only=True)
class PadAttributes(Attributes):
    """Of `pad`."""

    LENGTHS: ClassVar = {"before": 8, "after": 8}

    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: int
    bits: int


@dataclass(frozen=True, kw_only=True)
class ArangeAttributes(Attributes):
    """Of `arange`."""

    start: float
    step: float


@dataclass(frozen=True, kw_only=True)
class FillAttributes(Attributes):
    """Of `fill`."""

    bits: int


@dataclass(frozen=True, kw_only=True)
class TakeAttributes(Attributes):
    """Of `take`."""

    axis: int
    wraps: int


@dataclass(frozen=True, kw_only=True)
class GatherAttributes(Attributes):
    """Of `gather`."""

    axis: int


@dataclass(frozen=True, kw_only=True)
class ScatterAttributes(Attributes):
    """Of `scatter`."""

    axis: int
    mode: int
    includes_self: int


@dataclass(frozen=True, kw_only=True)
class ScatterRowsAttributes(Attributes):
    """Of `scatter_rows`."""

    axis: int
    mode: int
    includes_self: int
    wraps: int


@dataclass(frozen=True, kw_only=True)
class LinearIndexAttributes(Attributes):
    """Of `linear_index`."""

    LENGTHS: ClassVar = {"bounds": 8}

    bounds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TriangleAttributes(Attributes):
    """Of `triangle`."""

    diagonal: int
    is_upper: int


@dataclass(frozen=True, kw_only=True)
class SearchsortedAttributes(Attributes):
    """Of `searchsorted`."""

    is_right: int


@dataclass(frozen=True, kw_only=True)
class EmbeddingBagsAttributes(Attributes):
    """Of `embedding_bags`."""

    mode: int
    padding: int
    has_offsets: int
    has_weights: int


@dataclass(frozen=True, kw_only=True)
class ReduceAttributes(Attributes):
    """Of `reduce`."""

    function: int
    first_axis: int
    axis_count: int


@dataclass(frozen=True, kw_only=True)
class ScanAttributes(Attributes):
    """Of `scan`."""

    function: int
    axis: int


@dataclass(frozen=True, kw_only=True)
class ScanExtremeAttributes(Attributes):
    """Of `scan_extreme`."""

    is_greatest: int
    axis: int


@dataclass(frozen=True, kw_only=True)
class SortAttributes(Attributes):
    """Of `sort`."""

    is_descending: int


@dataclass(frozen=True, kw_only=True)
class LayerNormAttributes(Attributes):
    """Of `layer_norm`."""

    is_rms: int
    axis_count: int
    mask: int
    eps: float
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class GroupNormAttributes(Attributes):
    """Of `group_norm`."""

    groups: int
    mask: int
    eps: float
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class MatmulAttributes(Attributes):
    """Of `matmul`."""

    is_transposed: int


@dataclass(frozen=True, kw_only=True)
class AttentionAttributes(Attributes):
    """Of `attention`."""

    scale: float
    is_causal: int
    masked: float
    empty_is_nan: int


@dataclass(frozen=True, kw_only=True)
class Conv2dAttributes(Attributes):
    """Of `conv2d`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    dilation_h: int
    dilation_w: int
    groups: int
    has_residual: int
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2dAttributes(Attributes):
    """Of `depthwise_conv2d`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    dilation_h: int
    dilation_w: int
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ConvTranspose2dAttributes(Attributes):
    """Of `conv_transpose2d`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    dilation_h: int
    dilation_w: int
    groups: int


@dataclass(frozen=True, kw_only=True)
class WinogradConv2dAttributes(Attributes):
    """Of `winograd_conv2d`."""

    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    has_residual: int
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class SeparableConv2dAttributes(Attributes):
    """Of `separable_conv2d`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    rows: int
    has_expand: int
    has_residual: int
    expand_activation: int
    expand_low: float
    expand_high: float
    depthwise_activation: int
    depthwise_low: float
    depthwise_high: float
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class SqueezeExciteConv2dAttributes(Attributes):
    """Of `squeeze_excite_conv2d`."""

    has_residual: int
    squeeze_activation: int
    squeeze_low: float
    squeeze_high: float
    squeeze_function: int
    excite_activation: int
    excite_low: float
    excite_high: float
    excite_function: int
    activation: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Pool2dAttributes(Attributes):
    """Of `pool2d`."""

    mode: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    ceil_mode: int
    count_include_pad: int
    divisor: int


@dataclass(frozen=True, kw_only=True)
class AdaptivePool2dAttributes(Attributes):
    """Of `adaptive_pool2d`."""

    mode: int


@dataclass(frozen=True, kw_only=True)
class MaxPool2dIndicesAttributes(Attributes):
    """Of `max_pool2d_indices`."""

    adaptive: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    ceil_mode: int


@dataclass(frozen=True, kw_only=True)
class Resize2dAttributes(Attributes):
    """Of `resize2d`."""

    mode: int
    align_corners: int
    scale_h: float
    scale_w: float


@dataclass(frozen=True, kw_only=True)
class GridSampleAttributes(Attributes):
    """Of `grid_sample`."""

    mode: int
    padding: int
    align_corners: int


@dataclass(frozen=True, kw_only=True)
class RnnAttributes(Attributes):
    """Of `rnn`."""

    is_reversed: int
    is_relu: int


@dataclass(frozen=True, kw_only=True)
class GruAttributes(Attributes):
    """Of `gru`."""

    is_reversed: int


@dataclass(frozen=True, kw_only=True)
class LstmAttributes(Attributes):
    """Of `lstm`."""

    is_reversed: int


@dataclass(frozen=True, kw_only=True)
class QuantizeAttributes(Attributes):
    """Of `quantize`."""

    scale: float
    zero_point: int


@dataclass(frozen=True, kw_only=True)
class DequantizeAttributes(Attributes):
    """Of `dequantize`."""

    scale: float
    zero_point: int


@dataclass(frozen=True, kw_only=True)
class LinearI8Attributes(Attributes):
    """Of `linear_i8`."""

    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Conv2dI8Attributes(Attributes):
    """Of `conv2d_i8`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    dilation_h: int
    dilation_w: int
    groups: int
    input_zero_point: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2dI8Attributes(Attributes):
    """Of `depthwise_conv2d_i8`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    dilation_h: int
    dilation_w: int
    input_zero_point: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class AddI8Attributes(Attributes):
    """Of `add_i8`."""

    a_ratio: float
    b_ratio: float
    a_zero_point: int
    b_zero_point: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class LinearWeightI4Attributes(Attributes):
    """Of `linear_weight_i4`."""

    group: int


@dataclass(frozen=True, kw_only=True)
class MeanI8Attributes(Attributes):
    """Of `mean_i8`."""

    first_axis: int
    axis_count: int
    keeps_axes: int
    ratio: float
    input_zero_point: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class MulI8Attributes(Attributes):
    """Of `mul_i8`."""

    ratio: float
    a_zero_point: int
    b_zero_point: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class MaxPool2dI8Attributes(Attributes):
    """Of `max_pool2d_i8`."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    ceil_mode: int


ATTRIBUTES: Final[Mapping[str, type[Attributes]]] = {
    "ngram_hash": NgramHashAttributes,
    "embedding_bag": EmbeddingBagAttributes,
    "linear": LinearAttributes,
    "softmax": SoftmaxAttributes,
    "topk": TopkAttributes,
    "unary": UnaryAttributes,
    "binary": BinaryAttributes,
    "strided_copy": StridedCopyAttributes,
    "strided_scatter": StridedScatterAttributes,
    "concat": ConcatAttributes,
    "pad": PadAttributes,
    "arange": ArangeAttributes,
    "fill": FillAttributes,
    "take": TakeAttributes,
    "gather": GatherAttributes,
    "scatter": ScatterAttributes,
    "scatter_rows": ScatterRowsAttributes,
    "linear_index": LinearIndexAttributes,
    "triangle": TriangleAttributes,
    "searchsorted": SearchsortedAttributes,
    "embedding_bags": EmbeddingBagsAttributes,
    "reduce": ReduceAttributes,
    "scan": ScanAttributes,
    "scan_extreme": ScanExtremeAttributes,
    "sort": SortAttributes,
    "layer_norm": LayerNormAttributes,
    "group_norm": GroupNormAttributes,
    "matmul": MatmulAttributes,
    "attention": AttentionAttributes,
    "conv2d": Conv2dAttributes,
    "depthwise_conv2d": DepthwiseConv2dAttributes,
    "conv_transpose2d": ConvTranspose2dAttributes,
    "winograd_conv2d": WinogradConv2dAttributes,
    "separable_conv2d": SeparableConv2dAttributes,
    "squeeze_excite_conv2d": SqueezeExciteConv2dAttributes,
    "pool2d": Pool2dAttributes,
    "adaptive_pool2d": AdaptivePool2dAttributes,
    "max_pool2d_indices": MaxPool2dIndicesAttributes,
    "resize2d": Resize2dAttributes,
    "grid_sample": GridSampleAttributes,
    "rnn": RnnAttributes,
    "gru": GruAttributes,
    "lstm": LstmAttributes,
    "quantize": QuantizeAttributes,
    "dequantize": DequantizeAttributes,
    "linear_i8": LinearI8Attributes,
    "conv2d_i8": Conv2dI8Attributes,
    "depthwise_conv2d_i8": DepthwiseConv2dI8Attributes,
    "add_i8": AddI8Attributes,
    "linear_weight_i4": LinearWeightI4Attributes,
    "mean_i8": MeanI8Attributes,
    "mul_i8": MulI8Attributes,
    "max_pool2d_i8": MaxPool2dI8Attributes,
}
"""By operator; one that is missing has none."""
