"""Writes rows of a state where they lie: a cache of keys and values grows by a row, and nothing copies the rest.

A buffer that a run changes by rows (`self.keys.index_copy_(2, position, k)`, `self.keys[:, :, position] = k`) arrives
here as an `index_put` of the state that gives the state's update.  It becomes `write_rows`, which writes the session's
own memory; what read the update reads the state itself, after it.  What read the state as it was comes before it, or
the state stays one that is copied after the run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from alcove.runtime.compiler.graph import NONE, WRITE_ROWS, Graph, Node, State, Value
from alcove.runtime.format.attributes import IndexPutAttributes, WriteRowsAttributes

_SET: Final = 0
"""Mode of `index_put`, kernels/microkernels/scatter/scatter.h."""


@dataclass(frozen=True)
class _Write:
    """How a run changes a state by rows.

    Attributes:
        node: the `index_put`.
        before: keys of the state and of its reshapes up to the node.
        after: keys of what the node gives and of its reshapes up to the update.
        steps: positions of the node and of all these reshapes.
        axis: of the state, along which the indices count.
    """

    node: Node
    before: tuple[str, ...]
    after: tuple[str, ...]
    steps: frozenset[int]
    axis: int


def write_state_rows(graph: Graph) -> Graph:
    """Return the graph with each state that a run changes by rows written in place, where the order of reads allows."""
    for state in graph.states:
        write = _find_write(graph, state)
        if write is not None:
            graph = _in_place(graph, state, write)
    return _share_initials(graph)


def _share_initials(graph: Graph) -> Graph:
    """Return the graph with one constant for all states that begin as the same: empty caches are stored once."""
    first: dict[tuple[object, ...], str] = {}
    states = []
    for state in graph.states:
        initial = graph.values[state.initial]
        key = (initial.dtype, initial.shape, initial.array.tobytes())
        states.append(replace(state, initial=first.setdefault(key, state.initial)))
    return replace(graph, states=tuple(states))


def _find_write(graph: Graph, state: State) -> _Write | None:
    writers = {key: (step, node) for step, node in enumerate(graph.nodes) for key in node.outputs}
    after, steps, key = [state.update], set[int](), state.update
    while key in writers and writers[key][1].op == "reshape":
        step, node = writers[key]
        steps.add(step)
        key = node.inputs[0]
        after.append(key)
    if key not in writers or writers[key][1].op != "index_put":
        return None
    step, write = writers[key]
    steps.add(step)
    attributes = write.read(IndexPutAttributes)
    key = write.inputs[0]
    before = [key]
    while key in writers and writers[key][1].op == "reshape":
        step, node = writers[key]
        steps.add(step)
        key = node.inputs[0]
        before.append(key)
    kept = {other.value for other in graph.states}
    if key != state.value or attributes.mode != _SET or kept.intersection(write.inputs[1:]):
        return None
    axis = _same_axis(graph.values[write.inputs[0]].shape, attributes.axis, graph.values[state.value].shape)
    return None if axis is None else _Write(write, tuple(before), tuple(after), frozenset(steps), axis)


def _same_axis(shape: Sequence[int], axis: int, state: Sequence[int]) -> int | None:
    """Return which axis of the state the rows of its reshape count along; None if there is no such axis."""
    if tuple(shape) == tuple(state):
        return axis
    outer = math.prod(shape[:axis])
    found = (i for i, size in enumerate(state) if math.prod(state[:i]) == outer and size == shape[axis])
    return next(found, None)


def _in_place(graph: Graph, state: State, write: _Write) -> Graph:
    """Return the graph with this state written in place; as it is if something reads both forms out of order."""
    after = set(write.after)
    if any(port.value in after for port in graph.outputs):
        return graph
    if any(other is not state and other.update in after for other in graph.states):
        return graph
    old, new = set(write.before), after
    place = graph.nodes.index(write.node)
    old_readers = [step for step, node in enumerate(graph.nodes) if old.intersection(node.inputs)]
    new_readers = [step for step, node in enumerate(graph.nodes) if new.intersection(node.inputs)]
    last_old = max((step for step in old_readers if step not in write.steps), default=-1)
    first_new = min((step for step in new_readers if step not in write.steps), default=len(graph.nodes))
    if first_new <= last_old:
        return graph
    at = max(place, last_old)
    values = dict(graph.values)
    made = _steps(values, state, write)
    read_early = {key for step in old_readers if step not in write.steps for key in graph.nodes[step].inputs}
    read_late = {key for step in new_readers if step not in write.steps for key in graph.nodes[step].inputs}
    shape = values[state.value].shape
    nodes: list[Node] = []
    for step, node in enumerate(graph.nodes):
        if step not in write.steps or read_early.intersection(node.outputs).intersection(old):
            same = [state.value if key in after and values[key].shape == shape else key for key in node.inputs]
            nodes.append(replace(node, inputs=tuple(same)))
        if step == at:
            nodes += made
            for key in write.after:
                if key in read_late and values[key].shape != shape:
                    nodes.append(_reshape(write.node, state.value, key))
    states = tuple(replace(other, update=state.value) if other is state else other for other in graph.states)
    return replace(graph, values=values, nodes=tuple(nodes), states=states)


def _steps(values: dict[str, Value], state: State, write: _Write) -> list[Node]:
    """Return the write, with its rows in the state's own shape; adds their values."""
    _, index, rows = write.node.inputs
    kept = values[state.value]
    shape = (*kept.shape[: write.axis], *values[index].shape, *kept.shape[write.axis + 1 :])
    name = write.node.outputs[0]
    made: list[Node] = []
    if values[rows].shape != shape:
        reshaped = Value(f"{name}:rows", f"{state.name}:rows", kept.dtype, shape)
        values[reshaped.key] = reshaped
        made.append(_reshape(write.node, rows, reshaped.key))
        rows = reshaped.key
    undo = Value(f"{name}:undo", f"{state.name}:undo", kept.dtype, shape)
    values[undo.key] = undo
    wraps = write.node.read(IndexPutAttributes).wraps
    attributes = WriteRowsAttributes(axis=write.axis, wraps=wraps)
    inputs = (state.value, index, rows)
    return [*made, replace(write.node, op=WRITE_ROWS, inputs=inputs, outputs=(undo.key,), attributes=attributes)]


def _reshape(node: Node, source: str, result: str) -> Node:
    """Return a reshape in the name of `node`."""
    return replace(node, op="reshape", inputs=(source,), outputs=(result,), attributes=NONE)
