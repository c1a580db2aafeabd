"""In which order do the kernels want to read the constants?

Weights of a linear go into panels of 16 outputs with the bias in front, so that loading a program copies nothing.
"""

from dataclasses import replace

from alcove.runtime.compiler.graph import Graph, Node, Value
from alcove.runtime.compiler.weights import COMPUTED, JOIN, panels
from alcove.runtime.format.spec import DType, Layout


def lay_out(graph: Graph) -> Graph:
    """Return the graph with every linear reading one PANEL16 constant, logical shape [n, k], weight and bias in one."""
    values = dict(graph.values)
    nodes = [_with_panels(values, node) if node.op == "linear" else node for node in graph.nodes]
    used = {key for node in nodes for key in (*node.inputs, *node.outputs)} | {port.value for port in graph.inputs}
    return Graph({key: values[key] for key in values if key in used}, tuple(nodes), graph.inputs, graph.outputs)


def _with_panels(values: dict[str, Value], node: Node) -> Node:
    x, weight_key, *bias_key = node.inputs
    weight = values[weight_key]
    bias = values[bias_key[0]] if bias_key else None
    key = JOIN.join([weight_key, *bias_key]) + ":panels"
    if key not in values:
        vector = None if bias is None else bias.array.reshape(-1)
        is_vector = bias is not None and len(bias.shape) == 1
        name = weight.name
        if bias is not None:
            name += JOIN + (bias.name if is_vector else COMPUTED + "bias")
        data = panels(weight.array, vector)
        values[key] = Value(key, name, DType.F32, weight.shape, constant=data, layout=Layout.PANEL16)
    return replace(node, inputs=(x, key))
