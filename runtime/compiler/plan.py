"""Plans memory: places tensors in the arena by their lifetimes, so that the arena is small.

A tensor lives from the step that writes it to the last step that reads it, both included; an input lives from before
the first step, an output until after the last.  Two tensors that live at the same time must not
share a byte, but for views: a reshape shows the bytes of its input.  An op that may work in place does so if nothing
else needs its input any more.

Each of several orders is placed greedily, in the smallest gap that fits and in the lowest, and the smallest arena is
kept; up to six tensors, all orders are tried, which finds the optimum: the tensors of an optimal plan, taken by rising
offset and each put as low as it can go, end no higher.  `plan_check.py` proves the result again without this code.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from alcove.runtime import _native
from alcove.runtime.compiler.graph import WRITE_ROWS, Graph, Node
from alcove.runtime.format.spec import DTYPE_BYTES, DType

ALIGNMENT_BYTES: Final = 64
EXHAUSTIVE_BUFFERS: Final = 6
SHARING: Final = {op.name: op.sharing for op in _native.manifest()}


@dataclass(frozen=True)
class Buffer:
    """A range of bytes that must exist from step `first` to step `last`, both included."""

    key: str
    size_bytes: int
    first: int
    last: int

    def lives_with(self, other: "Buffer") -> bool:
        """Return whether the two exist at a common step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Plan:
    """Offset in bytes of every planned tensor, and the size of the arena; both multiples of 64."""

    offsets: dict[str, int]
    arena_bytes: int


def plan(graph: Graph, siblings: Sequence[Graph] = ()) -> Plan:
    """Return where each tensor of a packed graph lies; texts, constants and states are not in the arena.

    Args:
        graph: at the sizes that the plan is for.
        siblings: the same graph at other sizes; bytes are shared only if that holds for them too.
    """
    buffers, home = buffers_of(graph, siblings)
    placed = place(buffers)
    return Plan({key: placed.offsets[buffer] for key, buffer in home.items()}, placed.arena_bytes)


def buffers_of(graph: Graph, siblings: Sequence[Graph] = ()) -> tuple[list[Buffer], dict[str, str]]:
    """Return the buffers of a graph, and for each of its tensors the key of the buffer that holds it."""
    end = len(graph.nodes)
    first: dict[str, int] = {port.value: -1 for port in graph.inputs}
    last: dict[str, int] = dict(first)
    for step, node in enumerate(graph.nodes):
        for key in node.inputs:
            last[key] = max(last.get(key, -1), step)
        for key in node.outputs:
            first[key] = last[key] = step
    kept = [key for node in graph.nodes if node.op == WRITE_ROWS for key in (node.inputs[1], node.outputs[0])]
    for key in [port.value for port in graph.outputs] + [state.update for state in graph.states] + kept:
        last[key] = end
    home = {key: key for key in first if graph.values[key].dtype is not DType.TEXT}
    members = {key: [key] for key in home}
    for step, node in enumerate(graph.nodes):
        sharing = SHARING.get(node.op, "none")
        if sharing == "none" or node.inputs[0] not in home or not _fit(node, sharing, (graph, *siblings)):
            continue
        source, result = node.inputs[0], node.outputs[0]
        group = members[home[source]]
        if sharing == "in_place" and (
            any(last[key] > step for key in group) or any(home.get(key) == home[source] for key in node.inputs[1:])
        ):
            continue
        home[result] = home[source]
        group += members.pop(result)
    buffers = [
        Buffer(key, size_bytes(graph, key), min(first[other] for other in group), max(last[other] for other in group))
        for key, group in members.items()
    ]
    return buffers, home


def _fit(node: Node, sharing: str, graphs: Sequence[Graph]) -> bool:
    """Return whether a node's output fits its input's bytes; if it overwrites, element by element.

    What overwrites has elements of the same size (four rows of bools have the bytes of one row of floats that they
    were compared with), and if sizes vary the same shape.
    """
    source, result = node.inputs[0], node.outputs[0]
    if sharing == "in_place":
        values = [(graph.values[source], graph.values[result]) for graph in graphs]
        if any(DTYPE_BYTES[one.dtype] != DTYPE_BYTES[other.dtype] for one, other in values):
            return False
        if len(graphs) > 1 and any(one.shape != other.shape for one, other in values):
            return False
    return all(size_bytes(graph, source) == size_bytes(graph, result) for graph in graphs)


def place(buffers: Sequence[Buffer]) -> Plan:
    """Return the smallest arena found for `buffers`; the same buffers always give the same plan."""
    best: Plan | None = None
    for order in _orders(buffers):
        for fit in (_best_fit, _lowest_fit):
            candidate = _place_in_order(order, fit)
            if best is None or candidate.arena_bytes < best.arena_bytes:
                best = candidate
    return best or Plan({}, 0)


def _orders(buffers: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
    indexed = list(enumerate(buffers))

    def by(rank: Callable[[Buffer], tuple[int, ...]]) -> list[Buffer]:
        return [buffer for _, buffer in sorted(indexed, key=lambda item: (*rank(item[1]), item[0]))]

    yield by(lambda b: (-b.size_bytes, b.first))
    yield by(lambda b: (-b.size_bytes, b.first - b.last))
    yield by(lambda b: (-b.size_bytes * (b.last - b.first + 1),))
    yield by(lambda b: (b.first - b.last, -b.size_bytes))
    yield by(lambda b: (b.first, -b.size_bytes))
    yield by(lambda b: (-b.last, -b.size_bytes))
    pressure = {b.key: max(_live_bytes(buffers, step) for step in (b.first, b.last)) for b in buffers}
    yield by(lambda b: (-pressure[b.key], -b.size_bytes))
    if len(buffers) <= EXHAUSTIVE_BUFFERS:
        yield from permutations(buffers)


def _live_bytes(buffers: Sequence[Buffer], step: int) -> int:
    return sum(b.size_bytes for b in buffers if b.first <= step <= b.last)


def _place_in_order(order: Sequence[Buffer], fit: Callable[[list[tuple[int, int]], int], int]) -> Plan:
    placed: list[tuple[Buffer, int, int]] = []
    for buffer in order:
        size = align_size(buffer.size_bytes)
        occupied = sorted((start, end) for other, start, end in placed if other.lives_with(buffer))
        start = fit(_gaps(occupied), size)
        placed.append((buffer, start, start + size))
    offsets = {buffer.key: start for buffer, start, _ in placed}
    return Plan(offsets, max((end for _, _, end in placed), default=0))


def _gaps(occupied: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the free ranges between `occupied`, by rising start; the last one has no end (-1)."""
    gaps, position = [], 0
    for start, end in occupied:
        if start > position:
            gaps.append((position, start))
        position = max(position, end)
    return [*gaps, (position, -1)]


def _best_fit(gaps: list[tuple[int, int]], size: int) -> int:
    fitting = [(end - start, start) for start, end in gaps[:-1] if end - start >= size]
    return min(fitting)[1] if fitting else gaps[-1][0]


def _lowest_fit(gaps: list[tuple[int, int]], size: int) -> int:
    return next((start for start, end in gaps[:-1] if end - start >= size), gaps[-1][0])


def size_bytes(graph: Graph, key: str) -> int:
    """Return what a value takes in the arena."""
    value = graph.values[key]
    return DTYPE_BYTES[value.dtype] * math.prod(value.shape)


def align_size(size_bytes: int) -> int:
    """Return `size_bytes` rounded up to a multiple of 64."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
