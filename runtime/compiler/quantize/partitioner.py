"""Chooses the nodes that run in int8, and the tensors that share a scale.

Layers run in int8 if they can.  What follows joins where all that it reads is in int8 anyway; movements before a layer
join too, so that fewer bytes move.  A function whose result only float32 nodes read stays float32: its table would
round for nothing.  A clamp that alone reads a layer, sum, product or mean becomes that node's bounds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from alcove.runtime.compiler.builder import binary_attributes, bounds_of, unary_attributes
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import Graph, Node, Value
from alcove.runtime.compiler.quantize.quantizable_ops import LAYERS, Kind, activations, kind_of, layer_attributes
from alcove.runtime.format.attributes import Conv2dAttributes, LinearAttributes
from alcove.runtime.format.spec import DType


@dataclass(frozen=True)
class Regions:
    """What of a graph runs in int8.

    Attributes:
        kinds: index of a node -> kind of its int8 form, for the nodes that run in int8.
        clamps: index of a node -> index of the clamp that it takes over.
        reasons: index of a node -> why it stays float32, for layers and for what has an int8 form.
        roots: tensor -> the one whose scale it has; itself for most.
    """

    kinds: Mapping[int, Kind]
    clamps: Mapping[int, int]
    reasons: Mapping[int, str]
    roots: Mapping[str, str]

    def root(self, key: str) -> str:
        """Return the tensor whose scale `key` has."""
        return self.roots.get(key, key)


def without_residuals(graph: Graph) -> Graph:
    """Return the graph with each sum that a layer does as a node of its own, and its bounds after it."""
    values = dict(graph.values)
    nodes: list[Node] = []
    for node in graph.nodes:
        attributes = node.attributes
        if isinstance(attributes, LinearAttributes | Conv2dAttributes) and attributes.has_residual == 1:
            nodes += _split(values, node, attributes)
        else:
            nodes.append(node)
    return eliminate_dead_code(replace(graph, values=values, nodes=tuple(nodes)))


def _split(values: dict[str, Value], node: Node, settings: LinearAttributes | Conv2dAttributes) -> list[Node]:
    out = node.outputs[0]
    attributes = replace(settings, has_residual=0, activation=0, low=-math.inf, high=math.inf)
    plain, total = f"{out}:plain", f"{out}:sum" if settings.activation else out
    beside = replace(node.origin, op="aten.add.Tensor")
    for key in (plain, total):
        values[key] = replace(values[out], key=key, name=key) if key != out else values[out]
    results = [
        replace(node, inputs=node.inputs[:3], outputs=(plain, *node.outputs[1:]), attributes=attributes),
        Node("binary", (plain, node.inputs[3]), (total,), binary_attributes("add"), beside),
    ]
    if settings.activation:
        clamp = unary_attributes("clamp", settings.low, settings.high)
        results.append(Node("unary", (total,), (out,), clamp, beside))
    return results


def choose(graph: Graph, excluded: Mapping[int, str] | None = None) -> Regions:
    """Return the int8 parts of a graph without residuals.

    Args:
        graph: after fusion and layout.
        excluded: index of a node that must not join -> why.
    """
    return _Choice(graph, excluded or {}).run()


class _Choice:
    def __init__(self, graph: Graph, excluded: Mapping[int, str]) -> None:
        self.graph = graph
        self.excluded = excluded
        self.readers: dict[str, list[int]] = {}
        for index, node in enumerate(graph.nodes):
            for key in node.inputs:
                self.readers.setdefault(key, []).append(index)
        self.outputs = {port.value for port in graph.outputs} | {state.update for state in graph.states}
        self.writers = {key: index for index, node in enumerate(graph.nodes) for key in node.outputs}
        self.reasons: dict[int, str] = {}
        self.able: dict[int, Kind] = {}
        self.chosen: set[int] = set()

    def run(self) -> Regions:
        for index, node in enumerate(self.graph.nodes):
            kind, reason = kind_of(self.graph, node)
            if kind is not None and index in self.excluded:
                self.reasons[index] = self.excluded[index]
            elif kind is not None:
                self.able[index] = kind
            elif node.op in LAYERS or self._has_weights(node):
                self.reasons[index] = reason
        self.chosen = {index for index, kind in self.able.items() if kind == "layer"}
        self._follow()
        self._precede()
        self._prune()
        for index, kind in self.able.items():
            if index not in self.chosen and kind != "movement":
                self.reasons[index] = "what it reads or what reads it is float32"
        return Regions(
            {index: kind for index, kind in self.able.items() if index in self.chosen},
            self._clamps(),
            self.reasons,
            self._roots(),
        )

    def _has_weights(self, node: Node) -> bool:
        """Return whether a node reads a float32 matrix of constants."""
        values = [self.graph.values[key] for key in node.inputs]
        return any(value.constant is not None and value.dtype is DType.F32 and len(value.shape) > 1 for value in values)

    def _is_int8(self, key: str) -> bool:
        return self.writers.get(key, -1) in self.chosen

    def _follow(self) -> None:
        for index, node in enumerate(self.graph.nodes):
            if index in self.able and all(self._is_int8(key) for key in activations(self.graph, node)):
                self.chosen.add(index)

    def _precede(self) -> None:
        for index in sorted(self.able, reverse=True):
            out = self.graph.nodes[index].outputs[0]
            readers = self.readers.get(out, [])
            is_read = bool(readers) and all(reader in self.chosen for reader in readers)
            if self.able[index] == "movement" and is_read and out not in self.outputs:
                self.chosen.add(index)

    def _prune(self) -> None:
        for index in sorted(self.chosen, reverse=True):
            out = self.graph.nodes[index].outputs[0]
            has_reader = any(reader in self.chosen for reader in self.readers.get(out, []))
            if self.able[index] == "function" and not has_reader and not self._closes(index):
                self.chosen.discard(index)

    def _closes(self, index: int) -> bool:
        """Return whether a clamp costs nothing because the node before takes it over."""
        node = self.graph.nodes[index]
        return bounds_of(node) is not None and self._takes(self.writers.get(node.inputs[0], -1), index)

    def _takes(self, index: int, clamp: int) -> bool:
        """Return whether the node at `index` can take over the clamp that reads it."""
        if index not in self.chosen or self.able[index] not in {"layer", "sum", "product", "mean"}:
            return False
        node = self.graph.nodes[index]
        is_free = node.op not in LAYERS or layer_attributes(node).activation == 0
        out = node.outputs[0]
        return is_free and self.readers.get(out) == [clamp] and out not in self.outputs

    def _clamps(self) -> dict[int, int]:
        found = {}
        for index in sorted(self.chosen):
            node = self.graph.nodes[index]
            writer = self.writers.get(node.inputs[0], -1)
            if bounds_of(node) is not None and self._takes(writer, index):
                found[writer] = index
        return found

    def _roots(self) -> dict[str, str]:
        """Return one tensor of each set that movements tie together."""
        parents: dict[str, str] = {}

        def root(key: str) -> str:
            while key in parents:
                key = parents[key]
            return key

        for index in sorted(self.chosen):
            if self.able[index] == "movement":
                node = self.graph.nodes[index]
                for key in node.inputs:
                    mine, other = root(node.outputs[0]), root(key)
                    if mine != other:
                        parents[mine] = other
        return {key: root(key) for key in parents}


def tensors(graph: Graph, regions: Regions) -> tuple[str, ...]:
    """Return the tensors that int8 nodes read or write, in the order of the graph."""
    found: dict[str, None] = {}
    for index in sorted(regions.kinds):
        node = graph.nodes[index]
        found |= dict.fromkeys(activations(graph, node))
        found |= dict.fromkeys(node.outputs[:1])
    return tuple(found)
