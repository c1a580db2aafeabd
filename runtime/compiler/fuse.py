"""Fuses nodes: forms written out by hand into one operator, and what follows a product into the product.

First what is written out by hand becomes the operator that it is (`fuse_activation.py`, `fuse_norm.py`,
`fuse_attention.py`, `fuse_composite.py`), and zeros around an image go into the convolution that reads it
(`fuse_padding.py`).  Then a convolution or linear with constant weights takes over what follows it, as long as nothing
else reads what is between:

    product * scale + shift   constants by output channel, as a batch norm is: into weight and bias, in float64
    product + product         of one image: one product, if one kernel covers the other (`parallel_products.py`)
    product + other           read by the product itself, just before it writes; it then runs where the sum did
    relu, clamp               a bound below and above, which norms of rows and groups have too

A reshape between that keeps the channels last does not hinder.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from alcove.runtime.compiler.builder import bounds_of, has_function
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.fuse_activation import fuse_activations
from alcove.runtime.compiler.fuse_attention import fuse_attention
from alcove.runtime.compiler.fuse_cached_attention import fuse_cached_attention
from alcove.runtime.compiler.fuse_composite import fuse_composites
from alcove.runtime.compiler.fuse_norm import fuse_norms
from alcove.runtime.compiler.fuse_padding import fuse_padding
from alcove.runtime.compiler.graph import NONE, Graph, Node, Value, as_f32
from alcove.runtime.compiler.parallel_products import Weights, add_scale, add_weights, scale_of
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.attributes import (
    Conv2dAttributes,
    ConvTranspose2dAttributes,
    DepthwiseConv2dAttributes,
    GroupNormAttributes,
    LayerNormAttributes,
    LinearAttributes,
)
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


_PRODUCTS: Final = frozenset({"linear", "conv2d", "depthwise_conv2d", "conv_transpose2d"})
_NORMS: Final = frozenset({"layer_norm", "group_norm"})
_Adding: TypeAlias = LinearAttributes | Conv2dAttributes
"""Attributes of what can add a residual."""
_Bounding: TypeAlias = _Adding | DepthwiseConv2dAttributes | LayerNormAttributes | GroupNormAttributes
"""Attributes of what can keep its output within bounds."""


@dataclass(frozen=True)
class _Open:
    """A product that may take over what reads its output: places among the nodes so far."""

    product: int
    reshape: int | None = None


def fuse(graph: Graph) -> Graph:
    """Return the graph with hand-written operators as one node, and scales, shifts, sums and bounds inside products."""
    graph = fuse_cached_attention(fuse_attention(fuse_norms(fuse_activations(graph))))
    graph = eliminate_dead_code(fuse_padding(fuse_composites(graph)))
    return eliminate_dead_code(_Fusion(graph).run())


class _Fusion:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = dict(graph.values)
        self.nodes: list[Node | None] = []
        self.open: dict[str, _Open] = {}
        self.writers = {node.outputs[0]: node for node in graph.nodes}
        self.readers = Counter(key for node in graph.nodes for key in node.inputs)
        self.readers.update(port.value for port in graph.outputs)
        self.readers.update(state.update for state in graph.states)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if self._is_bound(node) or self._is_scale_or_shift(node) or self._is_parallel(node) or self._is_sum(node):
                continue
            self.nodes.append(node)
            self._open_node(node)
        return replace(self.graph, values=self.values, nodes=tuple(node for node in self.nodes if node is not None))

    def _open_node(self, node: Node) -> None:
        """Remember a product whose output is read once, and a reshape of one."""
        here = len(self.nodes) - 1
        out = node.outputs[0]
        if self.readers[out] != 1:
            return
        if node.op in _NORMS:
            self.open[out] = _Open(here)
        elif node.op in _PRODUCTS:
            if all(self.values[key].constant is not None for key in node.inputs[1:3]):
                self.open[out] = _Open(here)
        elif node.op == "reshape" and node.inputs[0] in self.open:
            opened = self.open[node.inputs[0]]
            is_same = self.values[node.inputs[0]].shape[-1:] == self.values[out].shape[-1:]
            if is_same and opened.reshape is None:
                self.open[out] = replace(opened, reshape=here)

    def _product(self, opened: _Open) -> Node:
        node = self.nodes[opened.product]
        if node is None:
            raise ValueError("a product that has moved is no longer open")
        return node

    def _is_plain(self, opened: _Open, *, before_sum: bool) -> bool:
        """Return whether nothing has been taken over that must come after what is to be taken over now."""
        attributes = self._product(opened).attributes
        is_unbounded = not isinstance(attributes, _Bounding) or attributes.activation == 0
        return is_unbounded and not (before_sum and isinstance(attributes, _Adding) and attributes.has_residual)

    def _take_over(self, opened: _Open, product: Node, by: Node) -> None:
        """Let the changed product, or the reshape after it, write what `by` would have written; it stays open."""
        out = by.outputs[0]
        last = product
        if opened.reshape is None:
            product = replace(product, outputs=(out, *product.outputs[1:]))
        self.nodes[opened.product] = product
        if opened.reshape is not None:
            last = self.nodes[opened.reshape] or last
            self.nodes[opened.reshape] = replace(last, outputs=(out,))
        if self.readers[out] == 1:
            self.open[out] = opened

    # -- bounds ---------------------------------------------------------------------------------------------------

    def _is_bound(self, node: Node) -> bool:
        bounds = self._bounds(node)
        opened = self.open.get(node.inputs[0]) if node.inputs else None
        if bounds is None or opened is None or not self._is_plain(opened, before_sum=False):
            return False
        product = self._product(opened)
        attributes = product.attributes
        if not isinstance(attributes, _Bounding):
            return False
        low, high = bounds
        bounded = replace(attributes, activation=1, low=low, high=high)
        self._take_over(opened, replace(product, attributes=bounded), node)
        return True

    def _bounds(self, node: Node) -> tuple[float, float] | None:
        """Return what a relu or clamp of float32 keeps within."""
        return bounds_of(node) if self.values[node.outputs[0]].dtype is DType.F32 else None

    # -- scales and shifts ----------------------------------------------------------------------------------------

    def _is_scale_or_shift(self, node: Node) -> bool:
        if node.op != "binary":
            return False
        function = next((name for name in ("add", "sub", "mul", "div") if has_function(node, "binary", name)), None)
        first, second = node.inputs
        if function in {"add", "mul"} and second in self.open:
            first, second = second, first
        opened = self.open.get(first)
        if function is None or opened is None or not self._is_plain(opened, before_sum=True):
            return False
        numbers = self._by_channel(first, second, node.outputs[0])
        if numbers is None:
            return False
        if function == "div":
            numbers = 1.0 / numbers
        product = self._product(opened)
        if product.op not in _PRODUCTS:
            return False
        is_scale = function in {"mul", "div"}
        if is_scale and (self.readers[product.inputs[1]] > 1 or not np.isfinite(numbers).all()):
            return False  # another product has this weight too: it would be stored twice
        bias = self.values[product.inputs[2]]
        if is_scale:
            changed = self._scale(product, numbers)
        elif function == "add" and not bias.name and self.values[second].shape == bias.shape:
            # There was no bias: the parameter is one, and keeps its name.
            changed = replace(product, inputs=(*product.inputs[:2], second, *product.inputs[3:]))
        else:
            changed = self._shift(product, -numbers if function == "sub" else numbers)
        self._take_over(opened, changed, node)
        return True

    def _by_channel(self, product: str, other: str, out: str) -> Doubles | None:
        """Return constant `other` as one number for each channel of a product's output, or None if it is none."""
        value, shape = self.values[other], self.values[product].shape
        if value.constant is None or value.dtype is not DType.F32 or self.values[out].shape != shape:
            return None
        size = value.constant.size
        if size != 1 and (size != shape[-1] or value.shape[-1] != size):
            return None
        return np.broadcast_to(value.constant.reshape(-1).astype(np.float64), (shape[-1],)).copy()

    def _scale(self, product: Node, scale: Doubles) -> Node:
        weight = self.values[product.inputs[1]].array.astype(np.float64)
        if product.op == "conv_transpose2d":
            groups = product.read(ConvTranspose2dAttributes).groups
            parts = weight.reshape(groups, -1, *weight.shape[1:])
            scaled = parts * scale.reshape(groups, 1, -1, *(1 for _ in weight.shape[2:]))
        else:
            scaled = weight * scale.reshape(-1, *(1 for _ in weight.shape[1:]))
        bias = self.values[product.inputs[2]].array.astype(np.float64) * scale
        keys = (
            self._constant(product.inputs[1], scaled.reshape(weight.shape)),
            self._constant(product.inputs[2], bias),
        )
        return replace(product, inputs=(product.inputs[0], *keys, *product.inputs[3:]))

    def _shift(self, product: Node, shift: Doubles) -> Node:
        bias = self._constant(product.inputs[2], self.values[product.inputs[2]].array + shift)
        return replace(product, inputs=(*product.inputs[:2], bias, *product.inputs[3:]))

    def _constant(self, of: str, array: Doubles) -> str:
        """Add a constant made of constant `of`; return its key."""
        key = f"{of}:folded"
        while key in self.values:
            key += "+"
        constant = as_f32(array)
        self.values[key] = Value(key, COMPUTED + key, DType.F32, constant.shape, constant=constant)
        return key

    # -- parallel products ----------------------------------------------------------------------------------------

    def _is_parallel(self, node: Node) -> bool:
        """Let one product do what a sum of two products of one image does, or of a product and of the scaled image."""
        if not has_function(node, "binary", "add") or len({self.values[key].shape for key in node.inputs}) > 1:
            return False
        for large, small in (node.inputs, node.inputs[::-1]):
            if self._is_branch(large) and (
                self._adds_product(large, small, node) or self._adds_scale(large, small, node)
            ):
                return True
        return False

    def _is_branch(self, key: str) -> bool:
        """Return whether a value is that of a product of constants that nothing but a sum has followed."""
        opened = self.open.get(key)
        if opened is None or opened.reshape is not None or not self._is_plain(opened, before_sum=False):
            return False
        return self._product(opened).op in _PRODUCTS - {"conv_transpose2d"}

    def _adds_product(self, large: str, small: str, node: Node) -> bool:
        if large == small or not self._is_branch(small):
            return False
        product, other = self._product(self.open[large]), self._product(self.open[small])
        weights = add_weights(self.values, product, other)
        residuals = [*product.inputs[3:], *other.inputs[3:]]
        if weights is None or len(residuals) > 1:
            return False
        self.nodes[self.open[small].product] = None
        self._replace_weights(large, product, weights, residuals, node)
        return True

    def _adds_scale(self, large: str, other: str, node: Node) -> bool:
        product = self._product(self.open[large])
        found = scale_of(self.values, self.writers, other, product.inputs[0])
        weights = None if found is None else add_scale(self.values, product, *found)
        if weights is None:
            return False
        self._replace_weights(large, product, weights, list(product.inputs[3:]), node)
        return True

    def _replace_weights(self, key: str, product: Node, weights: Weights, residuals: list[str], node: Node) -> None:
        """Let a product with other weights run here."""
        constants = [self._constant(of, array) for of, array in zip(product.inputs[1:3], weights, strict=True)]
        attributes = product.attributes
        if isinstance(attributes, _Adding):
            attributes = replace(attributes, has_residual=len(residuals))
        self._move(self.open[key])
        inputs = (product.inputs[0], *constants, *residuals)
        self._take_over(self.open[key], replace(product, inputs=inputs, attributes=attributes), node)

    # -- sums -----------------------------------------------------------------------------------------------------

    def _is_sum(self, node: Node) -> bool:
        """Let the later of the products that a sum reads add the other operand, in the place of the sum."""
        if not has_function(node, "binary", "add"):
            return False
        shapes = {self.values[key].shape for key in (*node.inputs, *node.outputs)}
        if len(shapes) > 1 or self.values[node.outputs[0]].dtype is not DType.F32:
            return False
        candidates = sorted(
            (key for key in node.inputs if self._takes_sum(key)), key=lambda key: -self.open[key].product
        )
        if not candidates:
            return False
        mine = candidates[0]
        other = node.inputs[1] if mine == node.inputs[0] else node.inputs[0]
        self._move(self.open[mine])
        opened = self.open[mine]
        product = self._product(opened)
        attributes = product.attributes
        if not isinstance(attributes, _Adding):
            raise TypeError("only a product that can add is asked to")
        shape = self.values[product.outputs[0]].shape
        if self.values[other].shape != shape:
            other = self._reshape(other, shape, opened.product, node)
            opened = self.open[mine] = self._after(opened)
        adding = replace(attributes, has_residual=1)
        self._take_over(opened, replace(product, inputs=(*product.inputs, other), attributes=adding), node)
        return True

    def _takes_sum(self, key: str) -> bool:
        opened = self.open.get(key)
        if opened is None or not self._is_plain(opened, before_sum=True):
            return False
        return isinstance(self._product(opened).attributes, _Adding)

    def _move(self, opened: _Open) -> None:
        """Let a product, and the reshape after it, run here."""
        places = [place for place in (opened.product, opened.reshape) if place is not None]
        moved = len(self.nodes)
        self.nodes += [self.nodes[place] for place in places]
        for place in places:
            self.nodes[place] = None
        now = _Open(moved, None if opened.reshape is None else moved + 1)
        self.open = {key: now if found == opened else found for key, found in self.open.items()}

    def _reshape(self, key: str, shape: tuple[int, ...], place: int, node: Node) -> str:
        """Add a reshape of `key` before the node at `place`; return its key."""
        out = f"{node.outputs[0]}:residual"
        self.values[out] = Value(out, out, DType.F32, shape)
        self.nodes.insert(place, Node("reshape", (key,), (out,), NONE, node.origin))
        return out

    @staticmethod
    def _after(opened: _Open) -> _Open:
        return _Open(opened.product + 1, None if opened.reshape is None else opened.reshape + 1)
