"""Which nodes can disappear without changing what the module computes?

A constant vector added right after a linear becomes its bias; what no output needs is left out.  (Constants that follow
from parameters alone were computed by `lower`.)
"""

from dataclasses import replace

import numpy as np
from alcove.runtime.compiler.graph import Array, Graph, Node, Value, as_f32
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.spec import DType

_ADD = "aten.add.Tensor"


def fold(graph: Graph) -> Graph:
    """Return the graph with biases folded and unused nodes and values left out; inputs stay even when unused."""
    return _without_unused(_with_biases(graph))


def _with_biases(graph: Graph) -> Graph:
    values = dict(graph.values)
    nodes = list(graph.nodes)
    position = 0
    while position < len(nodes):
        folded = _folded(replace_nodes(graph, values, nodes), nodes[position])
        if folded is None:
            position += 1
            continue
        linear, merged, bias = folded
        values[bias.key] = bias
        nodes[nodes.index(linear)] = merged
        del nodes[position]
    return replace_nodes(graph, values, nodes)


def replace_nodes(graph: Graph, values: dict[str, Value], nodes: list[Node]) -> Graph:
    """Return `graph` with other values and nodes and the same ports."""
    return Graph(values, tuple(nodes), graph.inputs, graph.outputs)


def _folded(graph: Graph, add: Node) -> tuple[Node, Node, Value] | None:
    """Return the linear before `add`, the linear that replaces both, and its bias; None if `add` is no such node."""
    if add.op != _ADD or len(add.inputs) != 2 or any(alpha != 1 for alpha in add.attributes):
        return None
    operands = [graph.values[key] for key in add.inputs]
    constant = next((value for value in operands if value.constant is not None), None)
    computed = next((value for value in operands if value.constant is None), None)
    if constant is None or computed is None or constant.dtype is not DType.F32:
        return None
    linear = next((node for node in graph.nodes if computed.key in node.outputs), None)
    if linear is None or linear.op != "linear" or graph.is_output(computed.key):
        return None
    if len(graph.consumers(computed.key)) != 1 or graph.values[add.outputs[0]].shape != computed.shape:
        return None
    vector = _as_vector(constant.array, computed.shape[1])
    if vector is None:
        return None
    key, name = constant.key, constant.name
    if len(linear.inputs) == 3:
        before = graph.values[linear.inputs[2]]
        vector = as_f32(before.array.reshape(-1) + vector)
        key, name = f"{before.key}+{constant.key}", f"{COMPUTED}{add.outputs[0]}"
    elif constant.shape != vector.shape:
        key, name = f"{constant.key}:vector", f"{COMPUTED}{add.outputs[0]}"
    bias = Value(key, name, DType.F32, vector.shape, constant=vector)
    merged = replace(linear, inputs=(*linear.inputs[:2], key), outputs=add.outputs)
    return linear, merged, bias


def _as_vector(constant: Array, columns: int) -> Array | None:
    """Return the f32 [columns] that is added to every row, or None where rows get different numbers."""
    if constant.ndim > 0 and constant.size not in (1, columns):
        return None
    if constant.ndim > 0 and constant.shape[-1] not in (1, columns):
        return None
    if constant.size == columns and constant.ndim > 0 and constant.shape[-1] != columns:
        return None
    return as_f32(np.broadcast_to(constant.reshape(-1), (columns,)))


def _without_unused(graph: Graph) -> Graph:
    needed = {port.value for port in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    kept.reverse()
    needed.update(port.value for port in graph.inputs)
    for node in kept:
        needed.update(node.outputs)
    values = {key: value for key, value in graph.values.items() if key in needed}
    return Graph(values, tuple(kept), graph.inputs, graph.outputs)
