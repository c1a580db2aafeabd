"""Eliminates dead nodes, values and states, shortens chains of reshapes, and copies what is copied alike once.

What no output and no state needs is left out, states that nothing reads among it, and a chain of reshapes is one.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from alcove.runtime.compiler.graph import WRITE_ROWS, Graph, Node

if TYPE_CHECKING:
    from alcove.runtime.format.named_attributes import Attributes


def eliminate_dead_code(graph: Graph) -> Graph:
    """Return the graph without states, nodes and values that nothing needs; inputs stay even when unused."""
    return remove_unused(_read_states(remove_unused(_short_reshapes(graph))))


def _read_states(graph: Graph) -> Graph:
    """Leave out states that are written alone: what a module only notes down changes no output."""
    read = {key for node in graph.nodes for key in node.inputs} | {port.value for port in graph.outputs}
    return replace(graph, states=tuple(state for state in graph.states if state.refusal or state.value in read))


def _short_reshapes(graph: Graph) -> Graph:
    """Let a reshape of a reshape read the first one's input; take out those that change nothing, and equal copies."""
    origin: dict[str, str] = {}  # output of a reshape -> what it shows
    same: dict[str, str] = {}  # output of a reshape that changes nothing, or of a copy that is there -> that
    copies: dict[tuple[str, Attributes, tuple[int, ...]], str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(same.get(key, key) for key in node.inputs)
        if node.op == "reshape":
            source = origin.get(inputs[0], inputs[0])
            before, after = graph.values[source], graph.values[node.outputs[0]]
            if before.shape == after.shape and not graph.is_output(after.key):
                same[after.key] = source
                continue
            origin[after.key] = source
            inputs = (source,)
        if node.op == "as_strided_copy" and not graph.is_output(node.outputs[0]):
            out = graph.values[node.outputs[0]]
            first = copies.setdefault((inputs[0], node.attributes, out.shape), out.key)
            if first != out.key:
                same[out.key] = first
                continue
        nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
    return replace(graph, nodes=tuple(nodes))


def remove_unused(graph: Graph) -> Graph:
    """Return the graph with only what its outputs and states need, and its inputs."""
    needed = {port.value for port in graph.outputs} | {state.update for state in graph.states}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.op == WRITE_ROWS or needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    kept.reverse()
    for node in kept:
        needed.update(node.outputs)
    needed.update(port.value for port in graph.inputs)
    needed.update(key for state in graph.states for key in (state.value, state.initial))
    values = {key: value for key, value in graph.values.items() if key in needed}
    return replace(graph, values=values, nodes=tuple(kept))
