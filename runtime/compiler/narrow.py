"""Computes only the part of a tensor that is read: a slice moves before the operators whose result it slices.

A network that ranks or classifies by one position computes all positions of its last layers and reads one.  Where a
slice is all that reads a result, and takes at most half of it, each row of the result follows from the same rows of
some inputs: those are sliced instead, as far back as nothing else reads them.

    linear(x)[:, -1:]          linear(x[:, -1:])
    attention(q, k, v)[i:j]    attention(q[i:j], k, v)
    (x + f(x))[:, :1]          x[:, :1] + f(x[:, :1])      the two slices of x are one

Indices that are looked up and divisions of integers stay whole: one that does not exist, and a division by zero, is an
error also where its row is not read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from alcove.runtime.compiler.builder import has_function, row_major_strides
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import NONE, Graph, Node, Origin
from alcove.runtime.compiler.patterns import Scene
from alcove.runtime.compiler.permutations import apply, order_of_strides
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.compiler.sizes import Size, is_at_most
from alcove.runtime.format.attributes import (
    AsStridedCopyAttributes,
    AttentionAttributes,
    ConcatAttributes,
    LayerNormAttributes,
)
from alcove.runtime.format.spec import DType

_DIVISIONS: Final = ("floor_div", "trunc_div", "fmod", "remainder")
"""Functions of integers that end a run where they divide by zero."""


@dataclass(frozen=True)
class _Part:
    """Of a dimension, every `step`-th element from `start` on, `count` of them."""

    start: int
    step: int
    count: int

    @property
    def end(self) -> int:
        """One more than the last element's place."""
        return self.start + (self.count - 1) * self.step + 1


_Region: TypeAlias = tuple[_Part | None, ...]
"""What is read of a tensor, by dimension; None is all of it."""


@dataclass(frozen=True)
class _Slice:
    """What is to be written instead of a result.

    Attributes:
        out: key of the slice.
        region: of the result that it reads.
        origin: of the copy that read it.
    """

    out: str
    region: _Region
    origin: Origin

    @property
    def is_whole(self) -> tuple[bool, ...]:
        """Whether all of a dimension is read, by dimension."""
        return tuple(part is None for part in self.region)


_Rule: TypeAlias = Callable[[Scene, Node, _Slice], list[Node] | None]
"""Returns the nodes that write a slice of a node's result in its place, or None if they would be no fewer elements."""


def narrow(graph: Graph) -> Graph:
    """Return the graph with slices as far back as they make operators smaller."""
    while True:
        scene = Scene(graph)
        instead: dict[int, list[Node]] = {}  # by place of what is sliced
        moved: set[int] = set()  # places of slices
        places = {id(node): place for place, node in enumerate(graph.nodes)}
        for place, node in enumerate(graph.nodes):
            whole = scene.only(node.inputs[0]) if node.op == "as_strided_copy" else None
            if whole is None or whole.op not in _RULES or places[id(whole)] in moved or place in instead:
                continue
            nodes = _move(scene, whole, node)
            if nodes is not None:
                instead[places[id(whole)]] = nodes
                moved.add(place)
        if not moved:
            return graph
        kept = (instead.get(place, [node]) for place, node in enumerate(graph.nodes) if place not in moved)
        graph = eliminate_dead_code(
            replace(graph, values=scene.values, nodes=tuple(node for nodes in kept for node in nodes))
        )


def _move(scene: Scene, whole: Node, copy: Node) -> list[Node] | None:
    """Return the nodes that compute only what a copy reads of a result, or None."""
    out = copy.outputs[0]
    found = _region(scene, copy)
    if found is None:
        return None
    region, axes = found
    shape = _shape_of(scene.shape(copy.inputs[0]), region)
    if shape == scene.shape(out) and all(axis in (None, place) for place, axis in enumerate(axes)):
        return _RULES[whole.op](scene, whole, _Slice(out, region, copy.origin))
    sliced = scene.new(f"{out}:sliced", scene.values[out].dtype, shape)
    nodes = _RULES[whole.op](scene, whole, _Slice(sliced, region, copy.origin))
    if nodes is None:
        return None
    own = row_major_strides(shape)
    strides = tuple(0 if axis is None else own[axis] for axis in axes)
    attributes = AsStridedCopyAttributes(offset=0, strides=strides)
    is_repeated = math.prod(shape) != math.prod(scene.shape(out))
    if not is_repeated and [axis for axis in axes if axis is not None] == [
        axis for axis, size in enumerate(shape) if size != 1
    ]:
        return [*nodes, Node("reshape", (sliced,), (out,), NONE, copy.origin)]
    return [*nodes, Node("as_strided_copy", (sliced,), (out,), attributes, copy.origin)]


def _region(scene: Scene, node: Node) -> tuple[_Region, tuple[int | None, ...]] | None:
    """Return what a copy slices, if that is at most half, and which dimension each of its result's is, if any."""
    value, out = scene.values[node.inputs[0]], scene.shape(node.outputs[0])
    attributes = node.read(AsStridedCopyAttributes)
    if value.is_ragged or not all(is_at_most(1, size) for size in (*value.shape, *out)):
        return None
    own, rest = row_major_strides(value.shape), attributes.offset
    starts = []
    for stride in own:
        start, rest = divmod(rest, stride)
        starts.append(start)
    parts = [_Part(start, 1, 1) for start in starts]
    axes: list[int | None] = []
    for count, stride in zip(out, attributes.strides, strict=False):
        if count == 1 or stride == 0:
            axes.append(None)
            continue
        fitting = [axis for axis, one in enumerate(own) if value.shape[axis] != 1 and stride % one == 0]
        if not fitting or fitting[0] in axes or not is_at_most(own[fitting[0]], stride):
            return None  # mirrored, or it goes on from one row to the next
        axes.append(axis := fitting[0])
        parts[axis] = _Part(starts[axis], stride // own[axis], count)
    is_within = (is_at_most(part.end, size) for part, size in zip(parts, value.shape, strict=True))
    read = math.prod(part.count for part in parts)
    if not all(is_within) or not is_at_most(2 * read, math.prod(value.shape)):
        return None
    region = tuple(
        None if (part.start, part.count) == (0, size) else part for part, size in zip(parts, value.shape, strict=True)
    )
    return region, tuple(axes)


def _shape_of(shape: Sequence[int], region: _Region) -> tuple[int, ...]:
    """Return the shape of a part of a tensor."""
    return tuple(size if part is None else part.count for size, part in zip(shape, region, strict=True))


def _take(scene: Scene, nodes: list[Node], key: str, region: _Region) -> str:
    """Return a part of `key`, by a node more, or as a constant of its own."""
    if all(part is None for part in region):
        return key
    value = scene.values[key]
    shape = _shape_of(value.shape, region)
    numbers = [number for part in region if part for number in (part.start, part.step, part.count)]
    if value.constant is not None and not any(isinstance(number, Size) for number in numbers):
        places = tuple(slice(None) if part is None else slice(part.start, part.end, part.step) for part in region)
        return scene.constant(key, value.constant[places], shape=shape)
    own = row_major_strides(value.shape)
    pairs = list(zip(own, region, strict=True))
    strides = [stride if part is None else stride * part.step for stride, part in pairs]
    offset = sum(stride * part.start for stride, part in pairs if part is not None)
    return scene.copy_strided(nodes, key, shape, strides, offset)


def _broadcast_region(shape: Sequence[int], result: Sequence[int], region: _Region) -> _Region | None:
    """Return the part of an operand of `shape`, broadcast to `result`, that a region of the result follows from."""
    skipped = len(result) - len(shape)
    parts: list[_Part | None] = []
    for size, full, part in zip(shape, result[skipped:], region[skipped:], strict=True):
        if part is not None and size not in (full, 1):
            return None
        parts.append(part if size == full else None)
    return tuple(parts)


def _take_all(scene: Scene, nodes: list[Node], wanted: Sequence[tuple[str, _Region | None]]) -> tuple[str, ...] | None:
    """Return a part of each key, or None if one of them has none."""
    parts = [(key, region) for key, region in wanted if region is not None]
    if len(parts) < len(wanted):
        return None
    return tuple(_take(scene, nodes, key, region) for key, region in parts)


# -- rules ------------------------------------------------------------------------------------------------------------


def _elementwise(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    result = scene.shape(node.outputs[0])
    nodes: list[Node] = []
    regions = [(key, _broadcast_region(scene.shape(key), result, wanted.region)) for key in node.inputs]
    inputs = _take_all(scene, nodes, regions)
    return None if inputs is None else [*nodes, replace(node, inputs=inputs, outputs=(wanted.out,))]


def _binary(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    """As elementwise; but an integer that is divided by zero ends the run also where nothing reads the quotient."""
    is_integer = scene.values[node.inputs[0]].dtype not in (DType.F32, DType.BOOL)
    if is_integer and has_function(node, "binary", *_DIVISIONS):
        return None
    return _elementwise(scene, node, wanted)


def _linear(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    result, rest = scene.shape(node.outputs[0]), node.inputs[3:]
    if not wanted.is_whole[-1] or any(scene.shape(key) != result for key in rest):
        return None
    nodes: list[Node] = []
    image, *residual = (_take(scene, nodes, key, wanted.region) for key in (node.inputs[0], *rest))
    return [*nodes, replace(node, inputs=(image, *node.inputs[1:3], *residual), outputs=(wanted.out,))]


def _rows_of(mixed_axes: Callable[[Node], int]) -> _Rule:
    """Return the rule of an operator that works on rows of its first input; `mixed_axes` says how many axes are one."""

    def rule(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
        if not all(wanted.is_whole[-mixed_axes(node) :]):
            return None
        nodes: list[Node] = []
        rows = _take(scene, nodes, node.inputs[0], wanted.region)
        return [*nodes, replace(node, inputs=(rows, *node.inputs[1:]), outputs=(wanted.out, *node.outputs[1:]))]

    return rule


def _matmul(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    result = scene.shape(node.outputs[0])
    batch = (*wanted.region[:-2], None, None)
    regions = [
        (key, _broadcast_region((*scene.shape(key)[:-2], *result[-2:]), result, part))
        for key, part in zip(node.inputs, (wanted.region, batch), strict=True)
    ]
    nodes: list[Node] = []
    inputs = _take_all(scene, nodes, regions) if wanted.is_whole[-1] else None
    return None if inputs is None else [*nodes, replace(node, inputs=inputs, outputs=(wanted.out, *node.outputs[1:]))]


def _attention(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    attributes = _attributes_of_rows(scene, node, wanted)
    if not wanted.is_whole[-1] or attributes is None:
        return None
    result = scene.shape(node.outputs[0])
    batch = (*wanted.region[:-2], None, None)
    query, key, value, *mask = node.inputs
    regions: list[tuple[str, _Region | None]] = [
        (each, _broadcast_region((*scene.shape(each)[:-2], *result[-2:]), result, part))
        for each, part in ((query, wanted.region), (key, batch), (value, batch))
    ]
    span = scene.shape(key)[-2]
    scores = (*result[:-1], span)
    regions += [(each, _broadcast_region(scene.shape(each), scores, wanted.region)) for each in mask]
    nodes: list[Node] = []
    inputs = _take_all(scene, nodes, regions)
    if inputs is None:
        return None
    length, width = scene.shape(inputs[0])[-2:]
    room = scratch_bytes("attention", length=length, span=span, width=width, value_width=result[-1])
    scratch = scene.new(f"{wanted.out}:scratch", DType.U8, (room,))
    return [*nodes, replace(node, inputs=inputs, outputs=(wanted.out, scratch), attributes=attributes)]


def _cached_attention(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    """Slice queries and the rows of the mask; what a block of rows works in does not follow from their number."""
    query, key, value, mask = node.inputs
    scores = (*scene.shape(node.outputs[0])[:-1], scene.shape(key)[-2])
    region = _broadcast_region(scene.shape(mask), scores, wanted.region)
    if not all((*wanted.is_whole[:-2], wanted.is_whole[-1])) or region is None:
        return None
    nodes: list[Node] = []
    rows, allowed = _take(scene, nodes, query, wanted.region), _take(scene, nodes, mask, region)
    return [*nodes, replace(node, inputs=(rows, key, value, allowed), outputs=(wanted.out, *node.outputs[1:]))]


def _attributes_of_rows(scene: Scene, node: Node, wanted: _Slice) -> AttentionAttributes | None:
    """Return the attributes for the rows that are read, or None: a causal mask counts rows, and hides none of the last.

    Row i of a causal mask shows the keys up to i.
    """
    attributes, rows = node.read(AttentionAttributes), wanted.region[-2]
    if not attributes.is_causal or rows is None:
        return attributes
    length, span = scene.shape(node.inputs[0])[-2], scene.shape(node.inputs[1])[-2]
    is_last = rows.count == 1 and rows.start == length - 1 and length == span
    return replace(attributes, is_causal=0) if is_last else None


def _concat(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    """Slice all that is joined, or copy from the one that the slice lies in."""
    axis = node.read(ConcatAttributes).axis
    part = wanted.region[axis]
    nodes: list[Node] = []
    if part is None:
        inputs = tuple(_take(scene, nodes, key, wanted.region) for key in node.inputs)
        return [*nodes, replace(node, inputs=inputs, outputs=(wanted.out,))]
    first = 0
    for key in node.inputs:
        end = first + scene.shape(key)[axis]
        if is_at_most(first, part.start) and is_at_most(part.end, end):
            own = replace(part, start=part.start - first)
            region = None if (own.start, own.count) == (0, end - first) else own
            source = _take(scene, nodes, key, (*wanted.region[:axis], region, *wanted.region[axis + 1 :]))
            return [*nodes, Node("reshape", (source,), (wanted.out,), NONE, wanted.origin)]
        first = end
    return None


def _reshape(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    """Slice dimensions that the reshape keeps: those with as many elements before and after them."""
    before, after = scene.shape(node.inputs[0]), scene.shape(node.outputs[0])
    parts: list[_Part | None] = [None] * len(before)
    for axis, part in enumerate(wanted.region):
        if part is None:
            continue
        outer = math.prod(after[:axis])
        kept = [own for own, size in enumerate(before) if size == after[axis] and math.prod(before[:own]) == outer]
        if not kept:
            return None
        parts[kept[0]] = part
    nodes: list[Node] = []
    source = _take(scene, nodes, node.inputs[0], tuple(parts))
    return [*nodes, replace(node, inputs=(source,), outputs=(wanted.out,))]


def _copy(scene: Scene, node: Node, wanted: _Slice) -> list[Node] | None:
    """Slice what a permute sees, if that goes on from there; of any other copy, copy only what is read."""
    source, middle, first = node.inputs[0], scene.shape(node.outputs[0]), node.read(AsStridedCopyAttributes)
    order = order_of_strides(scene.shape(source), middle, first.offset, first.strides)
    writer = scene.only(source)
    if order is not None and writer is not None and writer.op in _RULES:
        parts: list[_Part | None] = [None] * len(order)
        for axis, part in zip(order, wanted.region, strict=True):
            parts[axis] = part
        nodes: list[Node] = []
        rows = _take(scene, nodes, source, tuple(parts))
        strides = apply(order, row_major_strides(scene.shape(rows)))
        moved = AsStridedCopyAttributes(offset=0, strides=tuple(strides))
        return [*nodes, replace(node, inputs=(rows,), outputs=(wanted.out,), attributes=moved)]
    parted = [
        (stride, _Part(0, 1, size) if part is None else part)
        for stride, size, part in zip(first.strides, middle, wanted.region, strict=False)
    ]
    offset = first.offset + sum(stride * part.start for stride, part in parted)
    both = AsStridedCopyAttributes(offset=offset, strides=tuple(stride * part.step for stride, part in parted))
    return [replace(node, outputs=(wanted.out,), attributes=both)]


_RULES: Final[Mapping[str, _Rule]] = {
    "unary": _elementwise,
    "binary": _binary,
    "where": _elementwise,
    "cast": _elementwise,
    "linear": _linear,
    "layer_norm": _rows_of(lambda node: node.read(LayerNormAttributes).axis_count),
    "softmax": _rows_of(lambda _: 1),
    "matmul": _matmul,
    "attention": _attention,
    "cached_attention": _cached_attention,
    "concat": _concat,
    "reshape": _reshape,
    "as_strided_copy": _copy,
}
