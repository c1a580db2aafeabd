"""Rewrites graphs by patterns, which find several nodes and put others in their place.

A pattern is a function of a `Scene` and the last of its nodes.  It looks backwards from there and answers with the
nodes that take the last one's place, or None.  The nodes before it stay until `eliminate_dead_code`: what nobody reads
is gone then.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from alcove.runtime.compiler.builder import has_function, row_major_strides
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import NONE, Array, Graph, Node, Origin, Value
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.attributes import AsStridedCopyAttributes
from alcove.runtime.format.spec import DType


class Scene:
    """A graph seen from its ends; its values grow by those of the nodes that are put in."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = dict(graph.values)
        self.writers = {key: node for node in graph.nodes for key in node.outputs}
        self.readers = Counter(key for node in graph.nodes for key in node.inputs)
        self.readers.update(port.value for port in graph.outputs)
        self.readers.update(state.update for state in graph.states)
        self.kept: dict[tuple[str, str], str] = {}  # what patterns may share: (kind, key) -> key

    # -- looking --------------------------------------------------------------------------------------------------

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of value `key`."""
        return self.values[key].shape

    def only(self, key: str) -> Node | None:
        """Return the writer of `key` if no more than one node reads it and it does not leave the graph."""
        return self.writers.get(key) if self.readers[key] <= 1 else None

    def is_a(self, node: Node | None, op: str, *functions: str) -> bool:
        """Return whether `node` is an `op` of one of `functions`, or of any if there are none."""
        if node is None or node.op != op:
            return False
        return not functions or has_function(node, op, *functions)

    def number(self, key: str) -> float | None:
        """Return what a float32 constant of one element holds, if it is finite."""
        value = self.values[key]
        if value.constant is None or value.constant.size != 1 or value.dtype is not DType.F32:
            return None
        number = float(value.constant.reshape(()))
        return number if math.isfinite(number) else None

    def with_number(self, node: Node, *functions: str) -> tuple[str, float] | None:
        """Return operand and number of a binary `node` that joins any tensor and a number, of the operand's shape."""
        if not self.is_a(node, "binary", *functions):
            return None
        first, second = node.inputs
        pairs = [(first, second)]
        if not self.is_a(node, "binary", "sub", "div"):
            pairs.append((second, first))
        for key, other in pairs:
            number = self.number(other)
            if number is not None and self.shape(key) == self.shape(node.outputs[0]):
                return key, number
        return None

    # -- building -------------------------------------------------------------------------------------------------

    def new(self, key: str, dtype: DType, shape: Sequence[int]) -> str:
        """Add a value; `key` becomes unique."""
        while key in self.values:
            key += "+"
        self.values[key] = Value(key, key, dtype, tuple(shape))
        return key

    def constant(self, of: str, array: Array, name: str | None = None, shape: Sequence[int] | None = None) -> str:
        """Add a constant made of constant `of`, a parameter's own elements if it has a `name`; return its key.

        Args:
            of: key of a constant of its type.
            array: elements.
            name: a parameter's.
            shape: the array's, where some of its sizes vary.
        """
        key = self.new(f"{of}:fused", self.values[of].dtype, array.shape if shape is None else shape)
        stored = np.ascontiguousarray(array).reshape(array.shape)
        self.values[key] = replace(self.values[key], name=name or COMPUTED + key, constant=stored)
        return key

    def reshape(self, nodes: list[Node], key: str, shape: Sequence[int]) -> str:
        """Return `key` under another shape, by a node more where it takes one."""
        if self.shape(key) == tuple(shape):
            return key
        value = self.values[key]
        if value.constant is not None:
            return self.constant(key, value.constant.reshape(tuple(shape)), value.name, shape)
        result = self.new(f"{key}:shaped", value.dtype, shape)
        return self.add(nodes, Node("reshape", (key,), (result,), NONE, self.origin(key)))

    def copy_strided(
        self, nodes: list[Node], key: str, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> str:
        """Return a strided copy of `key`, or a reshape where the elements stay in their order."""
        sizes = tuple(shape)
        own = row_major_strides(sizes)
        stays = all(size == 1 or a == b for size, a, b in zip(sizes, strides, own, strict=True))
        if offset == 0 and stays and math.prod(sizes) == math.prod(self.shape(key)):
            return self.reshape(nodes, key, sizes)
        result = self.new(f"{key}:copied", self.values[key].dtype, sizes)
        attributes = AsStridedCopyAttributes(offset=offset, strides=tuple(strides))
        return self.add(nodes, Node("as_strided_copy", (key,), (result,), attributes, self.origin(key)))

    def add(self, nodes: list[Node], node: Node) -> str:
        """Add a node to those that are put in; return its output."""
        nodes.append(node)
        self.writers[node.outputs[0]] = node
        return node.outputs[0]

    def origin(self, key: str) -> Origin:
        """Return where in the user's model `key` comes from."""
        return self.writers[key].origin if key in self.writers else Origin("")


Pattern = Callable[[Scene, Node], Sequence[Node] | None]


def rewrite(graph: Graph, *patterns: Pattern) -> Graph:
    """Return the graph with the first pattern that fits each node in its place."""
    scene = Scene(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        found = next((result for pattern in patterns if (result := pattern(scene, node)) is not None), (node,))
        nodes.extend(found)
    return eliminate_dead_code(replace(graph, values=scene.values, nodes=tuple(nodes)))
