"""Lets 1x1 convolutions between images whose channels come first work on them as they are.

`layout` orders images channels-last and leaves a transpose where such an image comes in and where it goes out.  A 1x1
convolution with both beside it is a product of its weights with the image as it lies: pointwise_conv2d.  The costs say
where that is faster.  The values are those of conv2d, to the bit, but for the sign of a zero.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
from alcove.runtime.compiler.costs import Pointwise
from alcove.runtime.compiler.fuse_depthwise_separable import is_pointwise
from alcove.runtime.compiler.graph import NONE, Graph, Node, Value, as_f32
from alcove.runtime.compiler.pack import packer
from alcove.runtime.compiler.panels import CHANNELS_FIRST_FORM, shape_mark
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.compiler.sizes import is_at_most
from alcove.runtime.format.attributes import AsStridedCopyAttributes, Conv2dAttributes, PointwiseConv2dAttributes
from alcove.runtime.format.spec import DType

_SUFFIX: Final = ":channels_first"


@dataclass(frozen=True)
class _Sandwich:
    """A convolution, the transpose that it alone reads and the one that alone reads it, with reshapes between them.

    Attributes:
        before: from the convolution to the transpose.
        convolution: the node between.
        after: from the convolution to the transpose.
    """

    before: tuple[Node, ...]
    convolution: Node
    after: tuple[Node, ...]


def choose_channels_first(graph: Graph, *, is_half: bool = False) -> frozenset[int]:
    """Return which conv2d keep the order of their images, by place among all of them; none with weights of 16 bits."""
    return (
        frozenset()
        if is_half
        else frozenset(place for place, found in _sandwiches(graph).items() if _sizes(graph.values, found).is_faster)
    )


def keep_channels_first(graph: Graph, chosen: AbstractSet[int]) -> Graph:
    """Return the graph, before `pack`, with the chosen conv2d, by place, as pointwise_conv2d without transposes."""
    values = dict(graph.values)
    found = {place: each for place, each in _sandwiches(graph).items() if place in chosen}
    results = {id(each.convolution): _join(values, each) for each in found.values()}
    gone = {id(node) for each in found.values() for node in (*each.before, *each.after)}
    nodes = [new for node in graph.nodes if id(node) not in gone for new in results.get(id(node), [node])]
    return replace(graph, values=values, nodes=tuple(nodes))


def _sandwiches(graph: Graph) -> dict[int, _Sandwich]:
    """Return what can be replaced, by the place of its conv2d among all of them."""
    makers = {node.outputs[0]: node for node in graph.nodes}
    readers = Counter(key for node in graph.nodes for key in node.inputs)
    readers.update(port.value for port in graph.outputs)
    readers.update(state.update for state in graph.states)
    reader = {key: node for node in graph.nodes for key in node.inputs if readers[key] == 1}
    makers = {key: node for key, node in makers.items() if readers[key] == 1}
    places = count()
    found = {}
    for node in graph.nodes:
        if node.op != "conv2d":
            continue
        place = next(places)
        if not is_pointwise(graph, node) or node.read(Conv2dAttributes).has_residual:
            continue
        before = _past_reshapes(node, lambda each: makers.get(each.inputs[0]))
        after = _past_reshapes(node, lambda each: reader.get(each.outputs[0]))
        if not before or not after or not _is_first_to_last(graph.values, before[-1], node):
            continue
        if _is_last_to_first(graph.values, after[-1], node):
            found[place] = _Sandwich(tuple(before), node, tuple(after))
    return found


def _past_reshapes(node: Node, step: Callable[[Node], Node | None]) -> list[Node]:
    """Return the nodes beside one, up to the first that is no reshape; none if there is no such."""
    passed: list[Node] = []
    while (beside := step(passed[-1] if passed else node)) is not None:
        passed.append(beside)
        if beside.op != "reshape":
            return passed
    return []


def _is_first_to_last(values: Mapping[str, Value], node: Node, convolution: Node) -> bool:
    """Return whether a node makes the convolution's image of all of [n, c, h, w]."""
    images, rows, columns, channels = values[convolution.inputs[0]].shape
    pixels = rows * columns
    is_whole = _is_equal(math.prod(values[node.inputs[0]].shape), images * channels * pixels)
    image, channel = (images, channels * pixels), (channels, pixels)
    split, joined = (image, (rows, columns), (columns, 1), channel), (image, (pixels, 1), channel)
    return is_whole and (_copies(values, node, split) or _copies(values, node, joined))


def _is_last_to_first(values: Mapping[str, Value], node: Node, convolution: Node) -> bool:
    """Return whether a node makes [n, c, h, w] of the convolution's result."""
    images, rows, columns, channels = values[convolution.outputs[0]].shape
    pixels = rows * columns
    whole = ((images, pixels * channels), (channels, 1))
    split, joined = (*whole, (rows, columns * channels), (columns, channels)), (*whole, (pixels, channels))
    return _copies(values, node, split) or _copies(values, node, joined)


def _copies(values: Mapping[str, Value], node: Node, order: Sequence[tuple[int, int]]) -> bool:
    """Return whether a node is a strided copy of these sizes and strides, ones aside, at all sizes."""
    attributes = node.attributes
    if not isinstance(attributes, AsStridedCopyAttributes) or not _is_equal(attributes.offset, 0):
        return False
    own = zip(values[node.outputs[0]].shape, attributes.strides, strict=False)  # attributes have one for each axis
    seen, expected = ([each for each in pairs if not _is_equal(each[0], 1)] for pairs in (own, order))
    return len(seen) == len(expected) and all(
        _is_equal(size, other_size) and _is_equal(stride, other)
        for (size, stride), (other_size, other) in zip(seen, expected, strict=True)
    )


def _is_equal(one: int, other: int) -> bool:
    """Return whether two numbers are equal at all sizes."""
    return is_at_most(one, other) and is_at_most(other, one)


def _sizes(values: Mapping[str, Value], found: _Sandwich) -> Pointwise:
    images, rows, columns, outputs = map(int, values[found.convolution.outputs[0]].shape)
    return Pointwise(images, rows * columns, int(values[found.convolution.inputs[0]].shape[3]), outputs)


def _join(values: dict[str, Value], found: _Sandwich) -> list[Node]:
    """Return the nodes for a convolution and its transposes; the scratch keeps its key, with another size."""
    convolution = found.convolution
    images, rows, columns, channels = values[convolution.inputs[0]].shape
    outputs, pixels = values[convolution.outputs[0]].shape[3], rows * columns
    source, result = (values[key] for key in (found.before[-1].inputs[0], found.after[-1].outputs[0]))
    scratch = values[convolution.outputs[1]]
    room = scratch_bytes("pointwise_conv2d", pixels=pixels, channels=channels)
    values[scratch.key] = replace(scratch, dtype=DType.U8, shape=(room,))
    x, y = f"{source.key}{_SUFFIX}:{convolution.outputs[0]}", result.key + _SUFFIX
    values[x] = replace(source, key=x, name=x, shape=(images, channels, pixels), constant=None)
    values[y] = replace(result, key=y, name=y, shape=(images, outputs, pixels))
    settings = convolution.read(Conv2dAttributes)
    attributes = PointwiseConv2dAttributes(activation=settings.activation, low=settings.low, high=settings.high)
    product = replace(
        convolution,
        op="pointwise_conv2d",
        inputs=(x, *convolution.inputs[1:]),
        outputs=(y, scratch.key),
        attributes=attributes,
    )
    return [
        Node("reshape", (source.key,), (x,), NONE, found.before[-1].origin),
        product,
        Node("reshape", (y,), (result.key,), NONE, found.after[-1].origin),
    ]


@packer("pointwise_conv2d")
def _pack_pointwise(weight: Value, bias: Value, _node: Node) -> Value:
    """Return f32 [outputs, 1 + channels], the bias first."""
    rows = np.concatenate([bias.array[:, None], weight.array.reshape(weight.shape[0], -1)], axis=1)
    return Value("", shape_mark(weight.shape) + CHANNELS_FIRST_FORM, DType.F32, rows.shape, constant=as_f32(rows))
