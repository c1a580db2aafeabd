"""Fuses depthwise convolutions with the 1x1 convolutions around them, to run a few rows at a time.

An image between two convolutions of an inverted residual is several times as large as the ones before and after; where
it outgrows the caches, writing and reading it costs as much as computing it.  As one operator, only a few of its lines
exist at a time; how many, the costs of `costs.py` say.  Every number is computed as before, to the bit.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from alcove.runtime.compiler.costs import DEPTHWISE_ROWS, Separable
from alcove.runtime.compiler.graph import Graph, Node, Value
from alcove.runtime.compiler.pack import pack_node
from alcove.runtime.format.attributes import Conv2dAttributes, DepthwiseConv2dAttributes, SeparableConv2dAttributes
from alcove.runtime.format.spec import DType

_MOST_ROWS: Final = 64
_EQUAL: Final = 1.01
"""Times that differ by less are taken for equal: then less memory counts."""


@dataclass(frozen=True)
class _Chain:
    """Nodes that become one: a 1x1 convolution or none, a depthwise and a 1x1 convolution."""

    expand: Node | None
    depthwise: Node
    project: Node


def choose_separable(graph: Graph) -> dict[int, int]:
    """Return which depthwise convolutions run with their neighbours, by place among all of them, and rows at a time."""
    chosen = {place: choose_rows(_sizes(graph.values, chain)) for place, chain in _chains(graph).items()}
    return {place: rows for place, rows in chosen.items() if rows}


def choose_rows(sizes: Separable) -> int:
    """Return how many rows of the output to make at a time; 0 for one operator after the other.

    The fastest by `Separable.ns`; of those as fast as that, the one that holds the least memory, which is never whole
    images.
    """
    some = range(DEPTHWISE_ROWS, min(sizes.rows, _MOST_ROWS) + 1, DEPTHWISE_ROWS)
    times = {rows: sizes.ns(rows) for rows in (0, 1, 2, *some) if rows <= sizes.rows}
    bound = _EQUAL * min(times.values())
    fast = [rows for rows, spent in times.items() if rows and spent <= bound]
    return min(fast, key=sizes.held_bytes, default=0)


def _sizes(values: Mapping[str, Value], chain: _Chain) -> Separable:
    keys = (chain.depthwise.inputs[0], chain.depthwise.outputs[0], chain.project.outputs[0])
    (images, in_rows, in_columns, _), (_, rows, columns, channels), out = (values[key].shape for key in keys)
    depthwise = chain.depthwise.read(DepthwiseConv2dAttributes)
    inputs = 0 if chain.expand is None else values[chain.expand.inputs[0]].shape[3]
    window = ((depthwise.kernel_h, depthwise.kernel_w), depthwise.stride_h)
    return Separable(images, in_rows, in_columns, rows, columns, inputs, channels, out[3], *window)


def fuse_depthwise_separable(graph: Graph, chosen: Mapping[int, int]) -> Graph:
    """Return the graph with the chosen chains, by place and rows at a time, as separable_conv2d."""
    values = dict(graph.values)
    chains = {place: chain for place, chain in _chains(graph).items() if place in chosen}
    results = {id(chain.project): _join(values, chain, chosen[place]) for place, chain in chains.items()}
    gone = {id(node) for chain in chains.values() for node in (chain.expand, chain.depthwise)}
    nodes = [results.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    return replace(graph, values=values, nodes=tuple(nodes))


def _chains(graph: Graph) -> dict[int, _Chain]:
    makers = {node.outputs[0]: node for node in graph.nodes}
    readers = Counter(key for node in graph.nodes for key in node.inputs)
    readers.update(port.value for port in graph.outputs)
    readers.update(state.update for state in graph.states)
    projects = {node.inputs[0]: node for node in graph.nodes if is_pointwise(graph, node)}
    places = count()
    found = {}
    used: set[int] = set()
    for node in graph.nodes:
        if node.op != "depthwise_conv2d":
            continue
        place = next(places)
        project = projects.get(node.outputs[0])
        if project is None or readers[node.outputs[0]] > 1 or not _fits(graph, node):
            continue
        before = makers.get(node.inputs[0])
        is_free = before is not None and id(before) not in used  # a 1x1 convolution belongs to one chain
        is_expanded = before is not None and is_free and readers[node.inputs[0]] == 1 and is_pointwise(graph, before)
        expand = None
        if is_expanded and before is not None and not before.read(Conv2dAttributes).has_residual:
            expand = before
        found[place] = _Chain(expand, node, project)
        used.add(id(project))
    return found


def is_pointwise(graph: Graph, node: Node) -> bool:
    """Return whether a node is a 1x1 convolution of one group with constant weights."""
    settings = node.attributes
    if not isinstance(settings, Conv2dAttributes) or settings.groups != 1:
        return False
    sizes = (settings.kernel_h, settings.kernel_w, settings.stride_h, settings.stride_w)
    padding = (settings.pad_top, settings.pad_left, settings.pad_bottom, settings.pad_right)
    if any(size != 1 for size in sizes) or any(padding):
        return False
    return all(graph.values[key].constant is not None for key in node.inputs[1:3])


def _fits(graph: Graph, node: Node) -> bool:
    """Return whether weights are known, taps side by side, one output a channel, paddings less than the kernel."""
    attributes = node.read(DepthwiseConv2dAttributes)
    rows, columns = max(attributes.pad_top, attributes.pad_bottom), max(attributes.pad_left, attributes.pad_right)
    is_padded = rows < attributes.kernel_h and columns < attributes.kernel_w
    is_plain = attributes.dilation_h == attributes.dilation_w == 1 and is_padded
    channels = [graph.values[key].shape[3] for key in (node.inputs[0], node.outputs[0])]
    is_known = all(graph.values[key].constant is not None for key in node.inputs[1:3])
    return is_plain and is_known and channels[0] == channels[1]


def _join(values: dict[str, Value], chain: _Chain, rows: int) -> Node:
    """Return one node for a chain; its scratch is that of the last convolution, with another size."""
    parts = [pack_node(values, node) for node in (chain.expand, chain.depthwise, chain.project) if node is not None]
    project, depthwise = parts[-1], parts[-2]
    has_expand = chain.expand is not None
    scratch = _sizes(values, chain).held_bytes(rows)
    values[project.outputs[1]] = replace(values[project.outputs[1]], dtype=DType.U8, shape=(scratch,))
    window, last = depthwise.read(DepthwiseConv2dAttributes), project.read(Conv2dAttributes)
    first = parts[0].read(Conv2dAttributes) if has_expand else None
    attributes = SeparableConv2dAttributes(
        kernel_h=window.kernel_h,
        kernel_w=window.kernel_w,
        stride_h=window.stride_h,
        stride_w=window.stride_w,
        pad_top=window.pad_top,
        pad_left=window.pad_left,
        pad_bottom=window.pad_bottom,
        pad_right=window.pad_right,
        rows=rows,
        has_expand=int(has_expand),
        has_residual=last.has_residual,
        expand_activation=0 if first is None else first.activation,
        expand_low=0.0 if first is None else first.low,
        expand_high=0.0 if first is None else first.high,
        depthwise_activation=window.activation,
        depthwise_low=window.low,
        depthwise_high=window.high,
        activation=last.activation,
        low=last.low,
        high=last.high,
    )
    inputs = (parts[0].inputs[0], *(part.inputs[1] for part in parts), *project.inputs[2:])
    return replace(project, op="separable_conv2d", inputs=inputs, attributes=attributes)
