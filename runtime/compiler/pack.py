"""Packs the weight and bias of each product into the constant that its kernel reads.

A product's weight and bias go into one constant that its kernel reads as it lies, so that loading a program copies
nothing.  Before this pass a product's weight and bias are its inputs 1 and 2, row-major; afterwards the packed constant
is input 1 and what followed the bias follows it.  Each kind of product registers how.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.dead_code_elimination import remove_unused
from alcove.runtime.compiler.graph import Graph, Node, Value
from alcove.runtime.compiler.panels import panels
from alcove.runtime.compiler.share_tables import share_tables
from alcove.runtime.compiler.weights import COMPUTED, JOIN, join_names
from alcove.runtime.format.spec import DType, Layout

Packer = Callable[[Value, Value, Node], Value]
"""From weight, bias and node to the packed constant; `pack` sets its key, and puts the parameters' names before its
name."""

PACKERS: Final[dict[str, Packer]] = {}
_FORMS: Final[dict[str, Callable[[Node], object]]] = {}


def packer(*ops: str, form: Callable[[Node], object] | None = None) -> Callable[[Packer], Packer]:
    """Register the decorated function for ops whose inputs 1 and 2 are a weight and a bias.

    Args:
        ops: the runtime's names.
        form: of a node, what its weight is packed by beside the weight itself; None if by nothing.
    """

    def register(function: Packer) -> Packer:
        PACKERS.update(dict.fromkeys(ops, function))
        if form is not None:
            _FORMS.update(dict.fromkeys(ops, form))
        return function

    return register


def pack(graph: Graph) -> Graph:
    """Return the graph with every product reading packed constants."""
    values = dict(graph.values)
    nodes: list[Node] = []
    packed: dict[str, tuple[str, Node]] = {}
    for node in graph.nodes:
        nodes.append(pack_node(values, node) if _has_constants(graph, node) else node)
        if node.op == "linear" and nodes[-1] is not node:
            packed[node.inputs[1]] = (nodes[-1].inputs[1], node)
    return share_tables(remove_unused(replace(graph, values=values, nodes=tuple(nodes))), packed)


def _has_constants(graph: Graph, node: Node) -> bool:
    """Return whether a product waits to be packed; the rule of one whose weight is computed has packed it already."""
    return node.op in PACKERS and graph.values[node.inputs[1]].constant is not None


def pack_node(values: dict[str, Value], node: Node) -> Node:
    """Return a product, of a constant weight and bias, reading them as one constant, which is added to `values`."""
    x, weight_key, bias_key, *rest = node.inputs
    weight, bias = values[weight_key], values[bias_key]
    # Each product without a bias has zeros of its own: those of one weight are packed once.
    added = bias_key if bias.name or bias.array.any() else ""
    key = f"{weight_key}{JOIN}{added}:{node.op}{_FORMS[node.op](node) if node.op in _FORMS else ''}"
    if key not in values:
        result = PACKERS[node.op](weight, bias, node)
        values[key] = replace(result, key=key, name=joined_name(weight, bias) + result.name)
    return replace(node, inputs=(x, key, *rest))


def joined_name(weight: Value, bias: Value) -> str:
    """Return the name of a weight packed with its bias: both names, for `load_state`, if both are parameters."""
    if bias.name.startswith(COMPUTED) or weight.name.startswith(COMPUTED):
        computed = weight.name if weight.name.startswith(COMPUTED) else f"{COMPUTED}bias"
        return computed if weight.name.startswith(COMPUTED) else weight.name + JOIN + computed
    return join_names(weight.name, bias.name) if bias.name else weight.name


@packer("linear")
def _linear(weight: Value, bias: Value, _node: Node) -> Value:
    """Return PANEL16, logical shape [n, k]."""
    return Value("", "", DType.F32, weight.shape, constant=panels(weight.array, bias.array), layout=Layout.PANEL16)
