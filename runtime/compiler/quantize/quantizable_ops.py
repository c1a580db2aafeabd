"""Determines which nodes have an int8 form, of which kind, and which of their inputs it reads as int8.

layer      linear, conv2d, depthwise_conv2d with constant weights
sum        binary add of two computed tensors, or of one and a constant
product    binary mul, likewise
mean       reduce mean, adaptive average to one pixel, average windows
function   anything from one float32 element to one: a table of 256 entries
attention  scaled dot-product attention; its mask stays as it is
movement   what keeps its elements: reshape, as_strided_copy, concat, pad, max pooling; one scale for all its tensors
"""

import math
from typing import Final, Literal, TypeAlias

import numpy as np
from alcove.runtime.compiler.builder import has_function
from alcove.runtime.compiler.graph import Array, Graph, Node
from alcove.runtime.format.attributes import (
    AdaptivePool2dAttributes,
    AttentionAttributes,
    Conv2dAttributes,
    DepthwiseConv2dAttributes,
    LinearAttributes,
    Pool2dAttributes,
    ReduceAttributes,
)
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

Kind: TypeAlias = Literal["layer", "sum", "product", "mean", "function", "attention", "movement"]

MAX_PRODUCTS: Final = 65536
MAX_SUMMED: Final = 1 << 23
MAX_SPAN: Final = 32768
LEAST_SCALE: Final = 2.0**-20

Layer: TypeAlias = LinearAttributes | Conv2dAttributes | DepthwiseConv2dAttributes
LAYERS: Final = frozenset({"linear", "conv2d", "depthwise_conv2d"})

_NARROW_OUTPUTS, _FEWEST_NARROW_PIXELS = 4, 16
_MOVEMENTS = ("reshape", "as_strided_copy", "concat", "pad")
_REDUCE_MEAN = 1
_MAX, _AVERAGE = 0, 1
_SCALAR_FUNCTIONS = ("add", "sub", "mul", "div", "minimum", "maximum", "pow")
_NOT_NUMBERS = ("isnan", "isinf", "isfinite", "signbit", "bitwise_not", "logical_not")


def kind_of(graph: Graph, node: Node) -> tuple[Kind | None, str]:
    """Return the kind of a node's int8 form; (None, why it has none) otherwise."""
    if not all(_is_float(graph, key) for key in (*_operands(node), node.outputs[0])):
        return None, "not float32"
    if node.op in LAYERS or node.op == "attention":
        reason = _layer_reason(graph, node) if node.op in LAYERS else _attention_reason(graph, node)
        return (None, reason) if reason else ("layer" if node.op in LAYERS else "attention", "")
    if node.op in _MOVEMENTS or (node.op == "pool2d" and node.read(Pool2dAttributes).mode == _MAX):
        is_constant = any(graph.values[key].constant is not None for key in node.inputs)
        return (None, "a constant among its inputs") if is_constant else ("movement", "")
    if node.op in {"reduce", "adaptive_pool2d", "pool2d"}:
        return ("mean", "") if _is_mean(graph, node) else (None, f"no int8 form of this {node.op}")
    if node.op == "unary" and not has_function(node, "unary", *_NOT_NUMBERS):
        return "function", ""
    return _binary_kind(graph, node)


def activations(graph: Graph, node: Node) -> tuple[str, ...]:
    """Return the computed tensors that a node's int8 form reads as int8."""
    return tuple(key for key in _operands(node) if graph.values[key].constant is None)


def layer_attributes(node: Node) -> Layer:
    """Return the attributes of a node of `LAYERS`.

    Raises:
        TypeError: it is another operator.
    """
    if not isinstance(node.attributes, Layer):
        raise TypeError(f"{node.op} is no layer")
    return node.attributes


def groups_of(node: Node) -> int:
    """Return in how many groups a layer takes its channels; 1 for all but a conv2d."""
    return node.attributes.groups if isinstance(node.attributes, Conv2dAttributes) else 1


def is_product_of_rows(graph: Graph, node: Node) -> bool:
    """Return whether a layer multiplies rows by a matrix: a linear, or a convolution that is one.

    A convolution is one if its windows are single pixels, or if its only window is the whole image.
    """
    window = node.attributes
    if not isinstance(window, Conv2dAttributes):
        return isinstance(window, LinearAttributes)
    if window.groups != 1 or any((window.pad_top, window.pad_left, window.pad_bottom, window.pad_right)):
        return False
    kernel = window.kernel_h, window.kernel_w
    if kernel == (1, 1) and (window.stride_h, window.stride_w) == (1, 1):
        return True
    return (window.dilation_h, window.dilation_w) == (1, 1) and kernel == graph.values[node.inputs[0]].shape[1:3]


def is_narrow(graph: Graph, node: Node) -> bool:
    """Return whether a layer is a convolution of so few outputs that its float32 form is the faster one.

    It takes pixels as lanes (kernels/microkernels/conv2d_narrow); in int8 outputs are lanes, 16 at a time.
    """
    window = node.attributes
    if not isinstance(window, Conv2dAttributes) or is_product_of_rows(graph, node):
        return False
    *_, width, outputs = graph.values[node.outputs[0]].shape
    if width < _FEWEST_NARROW_PIXELS or outputs > _NARROW_OUTPUTS:
        return False
    is_plain = (window.groups, window.stride_w, window.dilation_h, window.dilation_w) == (1, 1, 1, 1)
    return is_plain and window.kernel_w > 1


def rows_of(weight: Array) -> NDArray[np.float32]:
    """Return a weight [n, c, kernel...] as [n, k], k going through kernel rows, kernel columns and channels."""
    rows = np.moveaxis(weight, 1, -1).reshape(len(weight), -1)
    return np.ascontiguousarray(rows, dtype=np.float32)


def _operands(node: Node) -> tuple[str, ...]:
    """Return the inputs that are activations or constants of their kind; not weights, masks or room to work in."""
    if node.op in LAYERS:
        return node.inputs[:1]
    return node.inputs[:3] if node.op == "attention" else node.inputs


def _is_float(graph: Graph, key: str) -> bool:
    value = graph.values[key]
    return value.dtype is DType.F32 and not value.is_ragged


def _layer_reason(graph: Graph, node: Node) -> str:
    weight, bias = (graph.values[key] for key in node.inputs[1:3])
    if weight.constant is None or bias.constant is None:
        return "its weights are computed"
    if len(node.inputs) > 3:
        return "it adds another tensor"
    if graph.values[node.inputs[0]].constant is not None:
        return "its input is a constant"
    if not (np.isfinite(weight.constant).all() and np.isfinite(bias.constant).all()):
        return "its weights are not all finite"
    if math.prod(weight.shape[1:]) > MAX_PRODUCTS:
        return f"sums of more than {MAX_PRODUCTS} products"
    return ""


def _attention_reason(graph: Graph, node: Node) -> str:
    if graph.values[node.inputs[1]].shape[-2] > MAX_SPAN:
        return f"more than {MAX_SPAN} keys"
    if not LEAST_SCALE <= node.read(AttentionAttributes).scale <= 1 / LEAST_SCALE:
        return "its scores are scaled by no usual number"
    return "its products are with a constant" if len(activations(graph, node)) < 3 else ""


def _is_mean(graph: Graph, node: Node) -> bool:
    shape, out = graph.values[node.inputs[0]].shape, graph.values[node.outputs[0]].shape
    settings = node.attributes
    if isinstance(settings, ReduceAttributes):
        count = math.prod(shape[settings.first_axis : settings.first_axis + settings.axis_count])
        return settings.function == _REDUCE_MEAN and count <= MAX_SUMMED
    if isinstance(settings, AdaptivePool2dAttributes):
        return settings.mode == _AVERAGE and out[1:3] == (1, 1) and math.prod(shape[1:3]) <= MAX_SUMMED
    pool = node.read(Pool2dAttributes)
    is_even = pool.count_include_pad == 1 or (pool.pad_h == 0 and pool.pad_w == 0)
    return is_even and pool.ceil_mode == 0 and pool.divisor in (0, pool.kernel_h * pool.kernel_w)


def _binary_kind(graph: Graph, node: Node) -> tuple[Kind | None, str]:
    if node.op != "binary":
        return None, f"no int8 form of {node.op}"
    constants = [graph.values[key] for key in node.inputs if graph.values[key].constant is not None]
    if len(constants) == 2 or any(not np.isfinite(value.array).all() for value in constants):
        return None, "its constants are not numbers"
    is_scalar = bool(constants) and constants[0].array.size == 1
    if is_scalar and has_function(node, "binary", *_SCALAR_FUNCTIONS):
        computed = next(key for key in node.inputs if graph.values[key].constant is None)
        if graph.values[computed].shape == graph.values[node.outputs[0]].shape:
            return "function", ""
    if has_function(node, "binary", "add"):
        return "sum", ""
    if has_function(node, "binary", "mul"):
        return "product", ""
    return None, "no int8 form of this function of two tensors"
