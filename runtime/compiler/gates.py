"""Fuses hardswish and hardsigmoid into the linears and convolutions whose output they alone read.

hardswish and hardsigmoid cost a product next to nothing, and a pass over memory by themselves.  This comes after
quantisation, which reads such functions as nodes of their own.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.builder import function_number
from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.quantise.forms import ACTIVATION

_GATES: Final = {function_number("unary", "hardswish"): 2, function_number("unary", "hardsigmoid"): 3}
"""Numbers of `activation`, docs/format.md."""


def gate(graph: Graph) -> Graph:
    """Return the graph whose linears and convolutions apply the hard gates that alone read them."""
    readers = Counter(key for node in graph.nodes for key in node.inputs)
    readers.update(port.value for port in graph.outputs)
    readers.update(state.update for state in graph.states)
    makers: dict[str, int] = {}
    nodes: list[Node | None] = []
    for node in graph.nodes:
        at = makers.get(node.inputs[0]) if node.op == "unary" and node.attributes[0] in _GATES else None
        product = None if at is None or readers[node.inputs[0]] > 1 else nodes[at]
        if at is not None and product is not None and product.attributes[ACTIVATION[product.op]] == 0:
            numbers = list(product.attributes)
            numbers[ACTIVATION[product.op]] = _GATES[int(node.attributes[0])]
            nodes[at] = replace(product, outputs=(*node.outputs, *product.outputs[1:]), attributes=tuple(numbers))
            makers[node.outputs[0]] = at
            continue
        if node.op in ACTIVATION:
            makers[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return replace(graph, nodes=tuple(node for node in nodes if node is not None))
