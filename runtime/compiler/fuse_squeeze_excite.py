"""Fuses each squeeze-and-excitation with the 1x1 convolution behind it into one operator.

The gated image, which would be written only to be read once, is never made, and six operators are one.
Every number is computed as before, to the bit.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from alcove.runtime.compiler.builder import has_function
from alcove.runtime.compiler.fuse_depthwise_separable import is_pointwise
from alcove.runtime.compiler.graph import Graph, Node, Value
from alcove.runtime.compiler.pack import pack_node
from alcove.runtime.compiler.quantize.quantizable_ops import layer_attributes
from alcove.runtime.compiler.rules.reduction import FOLDS
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import (
    Conv2dAttributes,
    LinearAttributes,
    ReduceAttributes,
    SqueezeExciteConv2dAttributes,
    UnaryAttributes,
)
from alcove.runtime.format.spec import DType

_MEAN: Final = ReduceAttributes(function=FOLDS["mean"], first_axis=1, axis_count=2)
"""Of a reduce to the mean of an image's pixels."""


@dataclass(frozen=True)
class _Gate:
    """One layer of the two that make the gates.

    Attributes:
        product: a linear, or a conv2d of one pixel.
        function: of the unary that follows; 0 if none does.
    """

    product: Node
    function: int


@dataclass(frozen=True)
class _Unit:
    """The nodes that become one, by their roles, and the image that they read."""

    image: str
    squeeze: _Gate
    excite: _Gate
    project: Node
    between: tuple[Node, ...]


class _Search:
    """Finds the nodes before a projection, each read by the next one alone."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {node.outputs[0]: node for node in graph.nodes}
        self.readers = Counter(key for node in graph.nodes for key in node.inputs)
        self.readers.update(port.value for port in graph.outputs)
        self.readers.update(state.update for state in graph.states)

    def unit(self, project: Node) -> _Unit | None:
        """Return what ends in a 1x1 convolution; None if it is no squeeze-and-excitation."""
        product = self._maker(project.inputs[0])
        if product is None or not has_function(product, "binary", "mul"):
            return None
        for image, gates in (product.inputs, product.inputs[::-1]):
            passed = [product]
            excite = self._gate(gates, passed)
            squeeze = None if excite is None else self._gate(excite.product.inputs[0], passed)
            mean = None if squeeze is None else self._past_reshapes(squeeze.product.inputs[0], passed)
            if excite is None or squeeze is None or mean is None:
                continue
            if (
                mean.op == "reduce"
                and mean.attributes == _MEAN
                and mean.inputs[0] == image
                and self._fits(image, gates)
            ):
                return _Unit(image, squeeze, excite, project, (*passed, mean))
        return None

    def _maker(self, key: str) -> Node | None:
        return self.makers.get(key) if self.readers[key] == 1 else None

    def _past_reshapes(self, key: str, passed: list[Node]) -> Node | None:
        node = self._maker(key)
        while node is not None and node.op == "reshape":
            passed.append(node)
            node = self._maker(node.inputs[0])
        return node

    def _gate(self, key: str, passed: list[Node]) -> _Gate | None:
        node = self._past_reshapes(key, passed)
        function = 0
        if node is not None and has_function(node, "unary", "sigmoid", "silu"):
            function = node.read(UnaryAttributes).function
            passed.append(node)
            node = self._past_reshapes(node.inputs[0], passed)
        if node is None or not self._is_layer(node):
            return None
        passed.append(node)
        return _Gate(node, function)

    def _is_layer(self, node: Node) -> bool:
        if node.op == "linear":
            is_constant = all(self.graph.values[key].constant is not None for key in node.inputs[1:3])
            return is_constant and not node.read(LinearAttributes).has_residual
        return is_pointwise(self.graph, node) and not node.read(Conv2dAttributes).has_residual

    def _fits(self, image: str, gates: str) -> bool:
        """Return whether there is one gate for each channel of each image, and not the other way round."""
        x, g = (self.graph.values[key].shape for key in (image, gates))
        return len(x) == len(g) == 4 and g == (x[0], 1, 1, x[3])


def fuse_squeeze_excite(graph: Graph) -> Graph:
    """Return the graph, before `pack`, with every squeeze-and-excitation as squeeze_excite_conv2d."""
    search = _Search(graph)
    units = [unit for node in graph.nodes if is_pointwise(graph, node) and (unit := search.unit(node)) is not None]
    values = dict(graph.values)
    results = {id(unit.project): _join(values, unit) for unit in units}
    gone = {id(node) for unit in units for node in unit.between}
    nodes = [results.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    return replace(graph, values=values, nodes=tuple(nodes))


def _join(values: dict[str, Value], unit: _Unit) -> Node:
    """Return one node for a unit; its scratch is that of the last convolution, with another size."""
    squeeze, excite, project = (
        pack_node(values, node) for node in (unit.squeeze.product, unit.excite.product, unit.project)
    )
    channels, squeezed = values[unit.image].shape[3], values[unit.squeeze.product.outputs[0]].shape[-1]
    scratch = scratch_bytes("squeeze_excite_conv2d", channels=channels, squeezed=squeezed)
    values[project.outputs[1]] = replace(values[project.outputs[1]], dtype=DType.U8, shape=(scratch,))
    first, second, last = layer_attributes(squeeze), layer_attributes(excite), project.read(Conv2dAttributes)
    attributes = SqueezeExciteConv2dAttributes(
        has_residual=last.has_residual,
        squeeze_activation=first.activation,
        squeeze_low=first.low,
        squeeze_high=first.high,
        squeeze_function=unit.squeeze.function,
        excite_activation=second.activation,
        excite_low=second.low,
        excite_high=second.high,
        excite_function=unit.excite.function,
        activation=last.activation,
        low=last.low,
        high=last.high,
    )
    inputs = (unit.image, *(part.inputs[1] for part in (squeeze, excite)), *project.inputs[1:])
    return replace(project, op="squeeze_excite_conv2d", inputs=inputs, attributes=attributes)
