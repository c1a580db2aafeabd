"""Fuses hardswish and hardsigmoid into the linears and convolutions whose output they alone read.

hardswish and hardsigmoid cost a product next to nothing, and a pass over memory by themselves.  This comes after
quantization, which reads such functions as nodes of their own.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.builder import has_function
from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.quantize.quantizable_ops import LAYERS, layer_attributes

_GATES: Final = {"hardswish": 2, "hardsigmoid": 3}
"""Numbers of `activation`, docs/format.md."""


def fuse_gated_activations(graph: Graph) -> Graph:
    """Return the graph whose linears and convolutions apply the hard gates that alone read them."""
    readers = Counter(key for node in graph.nodes for key in node.inputs)
    readers.update(port.value for port in graph.outputs)
    readers.update(state.update for state in graph.states)
    makers: dict[str, int] = {}
    nodes: list[Node | None] = []
    for node in graph.nodes:
        gate_number = next((number for name, number in _GATES.items() if has_function(node, "unary", name)), 0)
        at = makers.get(node.inputs[0]) if gate_number else None
        product = None if at is None or readers[node.inputs[0]] > 1 else nodes[at]
        if at is not None and product is not None and layer_attributes(product).activation == 0:
            attributes = replace(layer_attributes(product), activation=gate_number)
            nodes[at] = replace(product, outputs=(*node.outputs, *product.outputs[1:]), attributes=attributes)
            makers[node.outputs[0]] = at
            continue
        if node.op in LAYERS:
            makers[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return replace(graph, nodes=tuple(node for node in nodes if node is not None))
