"""Splits depthwise-separable convolutions of joined images, so that the joined image is never made.

A decoder joins what it has enlarged with what its encoder kept, by channels, and the largest such image is often the
peak of a network's memory.  A depthwise convolution works on each channel alone, and a 1x1 convolution adds channels
up: the one of a joined image is the sum of those of its parts, each of which adds what the ones before it gave.
The sum of a part begins at zero and adds that of the parts before it at its end, which changes the last bits of the
result: the program records it, so they are the same everywhere.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import accumulate, count, pairwise
from typing import Final

import numpy as np
from alcove.runtime.compiler.costs import CACHE_BYTES
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.fuse_depthwise_separable import is_pointwise
from alcove.runtime.compiler.graph import Array, Graph, Node, Value
from alcove.runtime.compiler.plan import size_bytes
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.attributes import ConcatAttributes, Conv2dAttributes
from alcove.runtime.format.spec import PANEL_COLUMNS, DType

_CHANNELS: Final = 3
_MOST_PARTS: Final = 4


@dataclass(frozen=True)
class _Chain:
    """A concat by channels, the depthwise convolution that alone reads it, and the 1x1 convolution behind that."""

    concat: Node
    depthwise: Node
    project: Node


def choose_split(graph: Graph) -> frozenset[int]:
    """Return which concats are split, by place among all of them: of those that can be, where it pays."""
    return frozenset(place for place, chain in _chains(graph).items() if _pays(graph, chain))


def split_concats(graph: Graph, chosen: AbstractSet[int]) -> Graph:
    """Return the graph without the chosen concats, by place, each convolution behind one as one for each part."""
    values = dict(graph.values)
    chains = {id(chain.project): chain for place, chain in _chains(graph).items() if place in chosen}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _split(values, chains[id(node)]) if id(node) in chains else [node]
    return eliminate_dead_code(replace(graph, values=values, nodes=tuple(nodes)))


def _chains(graph: Graph) -> dict[int, _Chain]:
    """Return what can be split, by the place of its concat among all of them."""
    readers = Counter(key for node in graph.nodes for key in node.inputs)
    readers.update(port.value for port in graph.outputs)
    readers.update(state.update for state in graph.states)
    reader = {key: node for node in graph.nodes for key in node.inputs if readers[key] == 1}
    places = count()
    found = {}
    for node in graph.nodes:
        if node.op != "concat":
            continue
        place = next(places)
        depthwise = reader.get(node.outputs[0])
        project = None if depthwise is None else reader.get(depthwise.outputs[0])
        if depthwise is None or project is None or node.read(ConcatAttributes).axis != _CHANNELS:
            continue
        if _is_depthwise(graph.values, depthwise) and is_pointwise(graph, project):
            found[place] = _Chain(node, depthwise, project)
    return found


def _is_depthwise(values: Mapping[str, Value], node: Node) -> bool:
    """Return whether a node is a depthwise convolution with one output a channel and constant weights."""
    if node.op != "depthwise_conv2d" or any(values[key].constant is None for key in node.inputs[1:3]):
        return False
    return values[node.inputs[0]].shape[_CHANNELS] == values[node.outputs[0]].shape[_CHANNELS]


def _pays(graph: Graph, chain: _Chain) -> bool:
    """Return whether the joined image outgrows a cache, its parts fill panels as well, and the sums are no larger.

    The sum of a part is written once and read once, as the joined image was; joining took as much again.
    """
    widths = [graph.values[key].shape[_CHANNELS] for key in chain.concat.inputs]
    outputs, joined = graph.values[chain.project.outputs[0]].shape[_CHANNELS], sum(widths)
    panels = sum(-(-width // PANEL_COLUMNS) for width in widths)
    if not 2 <= len(widths) <= _MOST_PARTS or chain.project.read(Conv2dAttributes).has_residual:
        return False
    is_even = panels <= -(-joined // PANEL_COLUMNS) and (len(widths) - 1) * outputs <= joined
    return is_even and size_bytes(graph, chain.concat.outputs[0]) > CACHE_BYTES


def _split(values: dict[str, Value], chain: _Chain) -> list[Node]:
    """Return the nodes of all parts, in their order."""
    depthwise, project = chain.depthwise, chain.project
    bounds = [0, *accumulate(values[key].shape[_CHANNELS] for key in chain.concat.inputs)]
    plain = replace(project.read(Conv2dAttributes), activation=0)
    nodes: list[Node] = []
    total = ""
    for place, (start, end) in enumerate(pairwise(bounds)):
        is_last = place + 2 == len(bounds)
        taps, shifts = (_constant(values, key, place, values[key].array[start:end]) for key in depthwise.inputs[1:3])
        weight = _constant(values, project.inputs[1], place, values[project.inputs[1]].array[:, start:end])
        bias = project.inputs[2]
        if place:
            bias = _constant(values, bias, place, np.zeros_like(values[bias].array))
        image = chain.concat.inputs[place]
        filtered = _like(values, depthwise.outputs[0], place, (*values[depthwise.outputs[0]].shape[:3], end - start))
        result = project.outputs[0] if is_last else _like(values, project.outputs[0], place)
        scratch = project.outputs[1] if is_last else _like(values, project.outputs[1], place)
        settings = replace(project.read(Conv2dAttributes) if is_last else plain, has_residual=int(place > 0))
        residual = (total,) if place else ()
        nodes += [
            replace(depthwise, inputs=(image, taps, shifts), outputs=(filtered,)),
            replace(
                project,
                inputs=(filtered, weight, bias, *residual),
                outputs=(result, scratch),
                attributes=settings,
            ),
        ]
        total = result
    return nodes


def _like(values: dict[str, Value], key: str, place: int, shape: tuple[int, ...] | None = None) -> str:
    """Add a value of the type of another; return its key."""
    name = _free(values, f"{key}:part{place}")
    value = values[key]
    values[name] = replace(value, key=name, name=name, shape=value.shape if shape is None else shape)
    return name


def _constant(values: dict[str, Value], key: str, place: int, array: Array) -> str:
    """Add a constant made of another for the part at `place`; return its key."""
    name = _free(values, f"{key}:part{place}")
    stored = np.ascontiguousarray(array)
    values[name] = Value(name, COMPUTED + name, DType.F32, stored.shape, constant=stored)
    return name


def _free(values: Mapping[str, Value], key: str) -> str:
    while key in values:
        key += "+"
    return key
