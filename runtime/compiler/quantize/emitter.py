"""Emits a graph whose chosen nodes run in int8.

One walk: an int8 node asks for its inputs in int8, any other for float32, and each form of a tensor is made once, where
it is first needed.  So int8 neighbours hand on int8, and conversions stand at the borders alone.
"""

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypedDict

import numpy as np
from alcove.runtime.compiler.builder import bounds_of
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import NONE, Array, Graph, Node, Origin, Port, Value
from alcove.runtime.compiler.quantize.calibrate import model_of
from alcove.runtime.compiler.quantize.calibration_free import smaller_linear
from alcove.runtime.compiler.quantize.options import Quantization
from alcove.runtime.compiler.quantize.packing import depthwise_panels_i8, panels_i8
from alcove.runtime.compiler.quantize.partitioner import Regions
from alcove.runtime.compiler.quantize.quantizable_ops import (
    LAYERS,
    activations,
    groups_of,
    is_product_of_rows,
    layer_attributes,
    rows_of,
)
from alcove.runtime.compiler.quantize.scales import (
    HIGHEST,
    LOWEST,
    Scale,
    quantize_rows,
    scale_of,
    weight_scales,
)
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.attributes import (
    AddI8Attributes,
    AttentionAttributes,
    AttentionI8Attributes,
    Conv2dI8Attributes,
    DepthwiseConv2dI8Attributes,
    DequantizeAttributes,
    LinearAttributes,
    LinearI8Attributes,
    MaxPool2dI8Attributes,
    MeanI8Attributes,
    MulI8Attributes,
    PadAttributes,
    Pool2dAttributes,
    QuantizeAttributes,
    ReduceAttributes,
)
from alcove.runtime.format.named_attributes import Attributes
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.runtime.compiler.rules.convolution import WindowNumbers

_LEAST_RATIO: Final = 2.0**-60
DYNAMIC: Final = Quantization("int8_dynamic")


class _Output(TypedDict):
    """The attributes that every operator with an int8 output of its own scale has."""

    zero_point: int
    low: int
    high: int


@dataclass(frozen=True)
class Settings:
    """What calibration has found.

    Attributes:
        regions: what runs in int8.
        scales: scale of each tensor that exists as int8, by its root.
        means: of the channels of a layer's input, by the key of its output; of the layers with bias correction.
        dynamic: indices of the layers whose rows are quantized as they come.
    """

    regions: Regions
    scales: Mapping[str, Scale]
    means: Mapping[str, NDArray[np.float64]]
    dynamic: Set[int] = frozenset()

    def scale(self, key: str) -> Scale:
        """Return the scale of a tensor."""
        return self.scales[self.regions.root(key)]


def emit(graph: Graph, settings: Settings) -> Graph:
    """Return the graph with its int8 regions."""
    return Emitter(graph, settings).whole()


class Emitter:
    """Makes int8 nodes; for a whole graph, or one at a time beside their float32 selves."""

    def __init__(self, graph: Graph, settings: Settings) -> None:
        self.graph = graph
        self.settings = settings
        self.values: dict[str, Value] = dict(graph.values)
        self.nodes: list[Node] = []
        self.int8: dict[str, str] = {}  # tensor -> its int8 form
        written = {key for node in graph.nodes for key in node.outputs}
        self.floats = {key for key in graph.values if key not in written}
        self.origin = Origin("")

    def whole(self) -> Graph:
        """Return the whole graph, quantized."""
        hidden = set(self.settings.regions.clamps.values())
        for index, node in enumerate(self.graph.nodes):
            if index in hidden:
                continue
            self.origin = node.origin
            if index in self.settings.regions.kinds:
                self.emit(index)
                continue
            for key in node.inputs:
                self.as_float(key)
            if index in self.settings.dynamic and is_product_of_rows(self.graph, node):
                self.nodes += smaller_linear(self.values, node, DYNAMIC)[0]
            else:
                self.nodes.append(node)
            self.floats.update(node.outputs)
        for key in [port.value for port in self.graph.outputs] + [state.update for state in self.graph.states]:
            self.as_float(key)
        return eliminate_dead_code(replace(self.graph, values=self.values, nodes=tuple(self.nodes)))

    def beside(self, index: int, mark: str) -> tuple[list[Node], dict[str, Value], str]:
        """Return nodes and values that compute one node in int8 from float32 inputs, and the key of what it gives."""
        self.nodes, self.int8, self.origin = [], {}, self.graph.nodes[index].origin
        before = set(self.values)
        self.floats = set(self.graph.values)
        out = self.emit(index)
        seen = f"{out}{mark}"
        self.values[seen] = replace(self.values[out], key=seen, name=seen, constant=None)
        self._dequantize(out, seen)
        results = {key: f"{key}{mark}" for key in self.values if key not in before and key != seen}
        nodes = [
            replace(
                node,
                inputs=tuple(results.get(key, key) for key in node.inputs),
                outputs=tuple(results.get(key, key) for key in node.outputs),
            )
            for node in self.nodes
        ]
        values = {results.get(key, key): self.values[key] for key in (*results, seen)}
        values = {key: replace(value, key=key) for key, value in values.items()}
        self.values = {key: value for key, value in self.values.items() if key in before}
        return nodes, values, seen

    def beside_dynamic(self, index: int, mark: str) -> tuple[list[Node], dict[str, Value], str]:
        """Return as `beside` does what computes a layer whose rows are quantized as they come."""
        node = self.graph.nodes[index]
        out = node.outputs[0]
        seen = f"{out}{mark}"
        values = {**self.graph.values, seen: replace(self.values[out], key=seen, name=seen)}
        nodes, _ = smaller_linear(values, replace(node, outputs=(seen, *node.outputs[1:])), DYNAMIC)
        return nodes, {key: value for key, value in values.items() if key not in self.graph.values}, seen

    def emit(self, index: int) -> str:
        """Add the int8 form of a node; return the tensor that it gives, the clamp's if it takes one over."""
        node = self.graph.nodes[index]
        clamp = self.settings.regions.clamps.get(index)
        out = node.outputs[0] if clamp is None else self.graph.nodes[clamp].outputs[0]
        limits = (-math.inf, math.inf)
        if clamp is not None:
            limits = bounds_of(self.graph.nodes[clamp]) or limits
        elif node.op in LAYERS and layer_attributes(node).activation == 1:
            limits = layer_attributes(node).low, layer_attributes(node).high
        _EMITTERS[self.settings.regions.kinds[index]](self, node, out, limits)
        return out

    # -- tensors --------------------------------------------------------------------------------------------------

    def as_int8(self, key: str) -> str:
        """Return the int8 form of a tensor, or of a constant by a scale of its own."""
        if key in self.int8:
            return self.int8[key]
        value, scale = self.values[key], self.scale(key)
        result = f"{key}:int8"
        if value.constant is not None:
            elements = scale.quantize(value.array)
            self.values[result] = Value(result, COMPUTED + result, DType.I8, value.shape, constant=elements)
        else:
            self.values[result] = Value(result, result, DType.I8, value.shape)
            attributes = QuantizeAttributes(scale=scale.scale, zero_point=scale.zero_point)
            self.nodes.append(Node("quantize", (key,), (result,), attributes, self.origin))
        self.int8[key] = result
        return result

    def as_float(self, key: str) -> str:
        """Return the float32 form of a tensor."""
        if key not in self.floats:
            self._dequantize(key, key)
            self.floats.add(key)
        return key

    def _dequantize(self, key: str, out: str) -> None:
        scale = self.scale(key)
        attributes = DequantizeAttributes(scale=scale.scale, zero_point=scale.zero_point)
        self.nodes.append(Node("dequantize", (self.int8[key],), (out,), attributes, self.origin))

    def scale(self, key: str) -> Scale:
        """Return the scale of a tensor or a constant."""
        value = self.values[key]
        if value.constant is not None:
            return scale_of(float(value.array.min()), float(value.array.max()))
        return self.settings.scale(key)

    def add(self, op: str, inputs: tuple[str, ...], out: str, attributes: Attributes = NONE) -> None:
        """Add a node that gives the int8 form of `out`."""
        result = f"{out}:int8"
        self.values[result] = Value(result, result, DType.I8, self.values[out].shape)
        self.nodes.append(Node(op, inputs, (result,), attributes, self.origin))
        self.int8[out] = result

    def scratch(self, out: str, size: int) -> None:
        """Give the last node room to work in."""
        key = f"{out}:int8:scratch"  # the float32 node may have one, and both may be in a graph
        self.values[key] = Value(key, key, DType.U8, (size,))
        self.nodes[-1] = replace(self.nodes[-1], outputs=(*self.nodes[-1].outputs, key))

    def constant(self, key: str, array: Array) -> str:
        """Add an int8 constant; return its key."""
        self.values[key] = Value(key, COMPUTED + key, DType.I8, array.shape, constant=array)
        return key

    def output(self, out: str, limits: tuple[float, float]) -> _Output:
        """Return the attributes that say how a node gives `out` within limits."""
        scale = self.settings.scale(out)
        low = LOWEST if limits[0] == -math.inf else scale.nearest(limits[0])
        high = HIGHEST if limits[1] == math.inf else scale.nearest(limits[1])
        return {"zero_point": scale.zero_point, "low": min(low, high), "high": high}


# -- layers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundedWeights:
    """A layer's weights in int8.

    Attributes:
        rows: [outputs, k].
        words: bias in units of input scale * weight scale, less zero point * sum of weights.
        factors: input scale * weight scale / output scale.
    """

    rows: NDArray[np.int8]
    words: NDArray[np.int32]
    factors: NDArray[np.float32]


def round_weights(emitter: Emitter, node: Node, out: str) -> RoundedWeights:
    """Return a layer's weights for the scales of its input and output."""
    weight, bias = (emitter.graph.values[key].array for key in node.inputs[1:3])
    source, target = emitter.settings.scale(node.inputs[0]), emitter.settings.scale(out)
    rows = rows_of(weight)
    scales = weight_scales(rows, bias, source.scale)
    # A channel without weights: anything that holds its bias and leaves the factor a sane float32.
    least = np.float32(target.scale / source.scale * _LEAST_RATIO)
    scales = np.maximum(scales, least).astype(np.float32)
    integers = quantize_rows(rows, scales)
    wide = scales.astype(np.float64)
    biases = bias.astype(np.float64)
    means = emitter.settings.means.get(node.outputs[0])
    if means is not None:
        biases = biases - ((integers * wide[:, None] - rows) * _inputs(node, rows.shape, means)).sum(axis=1)
    words = np.rint(biases / (source.scale * wide)) - source.zero_point * integers.astype(np.int64).sum(axis=1)
    factors = (source.scale * wide / target.scale).astype(np.float32)
    return RoundedWeights(integers, np.clip(words, -(2**31), 2**31 - 1).astype(np.int32), factors)


def _inputs(node: Node, shape: tuple[int, ...], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of what each weight [n, k] multiplies, broadcastable to it."""
    outputs, k = shape
    if node.op == "depthwise_conv2d":
        return np.repeat(means, outputs // len(means))[:, None]
    groups = groups_of(node)
    channels = len(means) // groups
    parts = means.reshape(groups, channels)
    tiled = np.tile(parts, (1, k // channels))
    return np.repeat(tiled, outputs // groups, axis=0)


def _layer(e: Emitter, node: Node, out: str, limits: tuple[float, float]) -> None:
    x = e.as_int8(node.inputs[0])
    result = round_weights(e, node, out)
    key = f"{out}:weights"
    numbers = e.output(out, limits)
    old = layer_attributes(node)
    if isinstance(old, LinearAttributes):
        packed = panels_i8(result.rows, result.words, result.factors)
        e.add("linear_i8", (x, e.constant(key, packed)), out, LinearI8Attributes(**numbers))
        return
    zero = e.settings.scale(node.inputs[0]).zero_point
    window: WindowNumbers = {
        "kernel_h": old.kernel_h,
        "kernel_w": old.kernel_w,
        "stride_h": old.stride_h,
        "stride_w": old.stride_w,
        "pad_top": old.pad_top,
        "pad_left": old.pad_left,
        "pad_bottom": old.pad_bottom,
        "pad_right": old.pad_right,
        "dilation_h": old.dilation_h,
        "dilation_w": old.dilation_w,
    }
    channels, outputs = e.graph.values[node.inputs[0]].shape[3], len(result.rows)
    if node.op == "depthwise_conv2d" and channels == outputs:
        packed = depthwise_panels_i8(np.ascontiguousarray(result.rows.T), result.words, result.factors)
        attributes = DepthwiseConv2dI8Attributes(**window, input_zero_point=zero, **numbers)
        e.add("depthwise_conv2d_i8", (x, e.constant(key, packed)), out, attributes)
        return
    groups = channels if node.op == "depthwise_conv2d" else groups_of(node)
    parts = zip(*(np.split(array, groups) for array in (result.rows, result.words, result.factors)), strict=True)
    packed = np.concatenate([panels_i8(*part) for part in parts])
    whole = Conv2dI8Attributes(**window, groups=groups, input_zero_point=zero, **numbers)
    e.add("conv2d_i8", (x, e.constant(key, packed)), out, whole)
    e.scratch(out, scratch_bytes("conv2d_i8", patch=result.rows.shape[1]))


# -- everything else ----------------------------------------------------------------------------------------------


def _ratio(value: float) -> float:
    """Return a ratio of scales as the float32 that the program holds."""
    return float(np.float32(value))


def _sum(e: Emitter, node: Node, out: str, limits: tuple[float, float]) -> None:
    (a, b), target = (e.scale(key) for key in node.inputs), e.settings.scale(out)
    inputs = tuple(e.as_int8(key) for key in node.inputs)
    attributes = AddI8Attributes(
        a_ratio=_ratio(a.scale / target.scale),
        b_ratio=_ratio(b.scale / target.scale),
        a_zero_point=a.zero_point,
        b_zero_point=b.zero_point,
        **e.output(out, limits),
    )
    e.add("add_i8", inputs, out, attributes)


def _product(e: Emitter, node: Node, out: str, limits: tuple[float, float]) -> None:
    (a, b), target = (e.scale(key) for key in node.inputs), e.settings.scale(out)
    ratio = _ratio(a.scale * b.scale / target.scale)
    inputs = tuple(e.as_int8(key) for key in node.inputs)
    attributes = MulI8Attributes(
        ratio=ratio, a_zero_point=a.zero_point, b_zero_point=b.zero_point, **e.output(out, limits)
    )
    e.add("mul_i8", inputs, out, attributes)


def _mean(e: Emitter, node: Node, out: str, limits: tuple[float, float]) -> None:
    x, shape = e.as_int8(node.inputs[0]), e.graph.values[node.inputs[0]].shape
    source, target = e.settings.scale(node.inputs[0]), e.settings.scale(out)
    numbers = e.output(out, limits)
    old = node.attributes
    if isinstance(old, Pool2dAttributes):
        taps, channels = old.kernel_h * old.kernel_w, shape[3]
        words = np.full(channels, -source.zero_point * taps, np.int32)
        factors = np.full(channels, source.scale / (taps * target.scale), np.float32)
        packed = depthwise_panels_i8(np.ones((taps, channels), np.int8), words, factors)
        weights = e.constant(f"{out}:weights", packed)
        attributes = DepthwiseConv2dI8Attributes(
            kernel_h=old.kernel_h,
            kernel_w=old.kernel_w,
            stride_h=old.stride_h,
            stride_w=old.stride_w,
            pad_top=old.pad_h,
            pad_left=old.pad_w,
            pad_bottom=old.pad_h,
            pad_right=old.pad_w,
            dilation_h=1,
            dilation_w=1,
            input_zero_point=source.zero_point,
            **numbers,
        )
        e.add("depthwise_conv2d_i8", (x, weights), out, attributes)
        return
    first, count = (old.first_axis, old.axis_count) if isinstance(old, ReduceAttributes) else (1, 2)
    keeps = int(node.op == "adaptive_pool2d")
    ratio = _ratio(source.scale / (math.prod(shape[first : first + count]) * target.scale))
    mean = MeanI8Attributes(
        first_axis=first,
        axis_count=count,
        keeps_axes=keeps,
        ratio=ratio,
        input_zero_point=source.zero_point,
        **numbers,
    )
    e.add("mean_i8", (x,), out, mean)


def _function(e: Emitter, node: Node, out: str, _limits: tuple[float, float]) -> None:
    (key,) = activations(e.graph, node)
    source, target = e.settings.scale(key), e.settings.scale(out)
    steps = np.arange(LOWEST, HIGHEST + 1, dtype=np.int8)
    table = target.quantize(_natively(e.graph, node, key, source.dequantize(steps)))
    e.add("lut_i8", (e.as_int8(key), e.constant(f"{out}:table", table)), out)


def _natively(graph: Graph, node: Node, key: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what the float32 node makes of each element of `x` [256], by its own kernel."""
    values = {other: graph.values[other] for other in node.inputs if other != key}
    values = {other: replace(value, shape=(1,), constant=value.array.reshape(1)) for other, value in values.items()}
    for name in (key, node.outputs[0]):
        values[name] = Value(name, name, DType.F32, x.shape)
    alone = Graph(values, (node,), (Port("x", key),), ())
    result: NDArray[np.float32] = model_of(alone, node.outputs)(x)[0]
    return result


def _attention(e: Emitter, node: Node, out: str, limits: tuple[float, float]) -> None:
    query, key, value = (e.scale(each) for each in node.inputs[:3])
    old = node.read(AttentionAttributes)
    attributes = AttentionI8Attributes(
        scale=_ratio(query.scale * key.scale * old.scale),
        is_causal=old.is_causal,
        masked=old.masked,
        query_zero_point=query.zero_point,
        key_zero_point=key.zero_point,
        value_zero_point=value.zero_point,
        ratio=_ratio(value.scale / e.settings.scale(out).scale),
        **e.output(out, limits),
    )
    e.add("attention_i8", (*(e.as_int8(each) for each in node.inputs[:3]), *node.inputs[3:]), out, attributes)
    (span, value_width), width = e.graph.values[node.inputs[2]].shape[-2:], e.graph.values[node.inputs[0]].shape[-1]
    e.scratch(out, scratch_bytes("attention_i8", span=span, width=width, value_width=value_width))


def _movement(e: Emitter, node: Node, out: str, _limits: tuple[float, float]) -> None:
    inputs = tuple(e.as_int8(key) for key in node.inputs)
    op, argument = node.op, node.attributes
    if isinstance(argument, Pool2dAttributes):
        op = "max_pool2d_i8"
        argument = MaxPool2dI8Attributes(
            kernel_h=argument.kernel_h,
            kernel_w=argument.kernel_w,
            stride_h=argument.stride_h,
            stride_w=argument.stride_w,
            pad_h=argument.pad_h,
            pad_w=argument.pad_w,
            dilation_h=argument.dilation_h,
            dilation_w=argument.dilation_w,
            ceil_mode=argument.ceil_mode,
        )
    elif isinstance(argument, PadAttributes):
        fill = np.frombuffer(argument.bits.to_bytes(8, "little")[:4], "<f4")
        bits = e.settings.scale(out).quantize(fill.copy()).view(np.uint8)[0]
        argument = replace(argument, bits=int(bits))
    e.add(op, inputs, out, argument)


_EMITTERS: Final[Mapping[str, Callable[[Emitter, Node, str, tuple[float, float]], None]]] = {
    "layer": _layer,
    "sum": _sum,
    "product": _product,
    "mean": _mean,
    "function": _function,
    "attention": _attention,
    "movement": _movement,
}
