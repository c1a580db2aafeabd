"""Equalizes the channels' ranges of two layers in a row, without changing what they compute.

Channel i between layers A and B can be scaled down in A by s[i] and up again in B, through a relu too: what B gives
stays the same.  With s[i] = sqrt(range A[i] / range B[i]) both layers' channels become as alike as they can be, so that
one scale for all channels of the tensor between fits them.  A bound above, as of relu6, does not scale: such a pair
stays as it is.

Source: Nagel et al., "Data-free quantization through weight equalization and bias correction", ICCV 2019, section 4.1.
"""

import math
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.builder import bounds_of
from alcove.runtime.compiler.dead_code_elimination import remove_unused
from alcove.runtime.compiler.graph import Graph, Node, Value, as_f32
from alcove.runtime.compiler.quantize.quantizable_ops import activations, groups_of, kind_of, layer_attributes
from alcove.runtime.compiler.weights import COMPUTED
from numpy.typing import NDArray

ROUNDS: Final = 8
"""Pairs overlap; this many walks bring the factors close to 1."""
MOST: Final = 2.0**10
"""No channel is scaled by more at once: ranges of almost nothing say nothing."""

Doubles = NDArray[np.float64]


def equalize(graph: Graph, untouched: Set[int] = frozenset()) -> Graph:
    """Return a graph that computes the same, with its layers' channels as alike as pairs allow.

    Args:
        graph: without residuals.
        untouched: indices of layers whose pairs stay as they are.
    """
    work = _Weights(graph)
    pairs = [pair for pair in _pairs(graph) if untouched.isdisjoint(pair)]
    for _ in range(ROUNDS if pairs else 0):
        for first, second in pairs:
            work.share(first, second)
    return work.graph()


def chains(graph: Graph) -> list[list[tuple[int, int]]]:
    """Return the pairs of layers (their indices) that share ranges, those together that share a layer."""
    found: list[list[tuple[int, int]]] = []
    for pair in _pairs(graph):
        tied = [chain for chain in found if any(set(pair).intersection(other) for other in chain)]
        found = [chain for chain in found if chain not in tied]
        found.append([*(other for chain in tied for other in chain), pair])
    return found


def _pairs(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield indices of layers whose one reader is a layer, with at most a relu between."""
    readers: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        for key in node.inputs:
            readers.setdefault(key, []).append(index)
    uses = Counter(key for node in graph.nodes for key in node.inputs)
    for index, node in enumerate(graph.nodes):
        if not _is_layer(graph, node, uses) or not _is_scalable(node):
            continue
        out = node.outputs[0]
        while len(readers.get(out, [])) == 1 and not graph.is_output(out):
            after = readers[out][0]
            reader = graph.nodes[after]
            if bounds_of(reader) == (0.0, math.inf):
                out = reader.outputs[0]
                continue
            if _is_layer(graph, reader, uses) and reader.inputs[0] == out:
                yield index, after
            break


def _is_layer(graph: Graph, node: Node, uses: Counter[str]) -> bool:
    if kind_of(graph, node)[0] != "layer" or any(uses[key] > 1 for key in node.inputs[1:3]):
        return False
    return node.op != "depthwise_conv2d" or len(graph.values[node.inputs[1]].array) == _channels(graph, node)


def _channels(graph: Graph, node: Node) -> int:
    return graph.values[activations(graph, node)[0]].shape[-1]


def _is_scalable(node: Node) -> bool:
    attributes = layer_attributes(node)
    return attributes.activation == 0 or (attributes.low == 0 and attributes.high == math.inf)


class _Weights:
    """The weights and biases of a graph's layers, in float64 while they change."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._arrays: dict[str, Doubles] = {}

    def _array(self, key: str) -> Doubles:
        if key not in self._arrays:
            self._arrays[key] = self._graph.values[key].array.astype(np.float64)
        return self._arrays[key]

    def share(self, first: int, second: int) -> None:
        """Move the ranges of one pair towards each other."""
        a, b = self._graph.nodes[first], self._graph.nodes[second]
        weight_a, bias_a, weight_b = self._array(a.inputs[1]), self._array(a.inputs[2]), self._array(b.inputs[1])
        range_a = np.abs(weight_a.reshape(len(weight_a), -1)).max(axis=1)
        groups = groups_of(b)
        range_b = _ranges_of_inputs(b, weight_b, groups)
        is_alive = (range_a > 0) & (range_b > 0)
        factors = np.ones(len(range_a))
        factors[is_alive] = np.sqrt(range_a[is_alive] / range_b[is_alive])
        factors = np.clip(factors, 1 / MOST, MOST)
        weight_a /= factors.reshape(-1, *(1 for _ in weight_a.shape[1:]))
        bias_a /= factors
        _scale_inputs(b, weight_b, groups, factors)

    def graph(self) -> Graph:
        """Return the graph with the weights as they are now."""
        values: dict[str, Value] = dict(self._graph.values)
        renamed = {}
        for key, array in self._arrays.items():
            result = renamed[key] = f"{key}:equalised"
            values[result] = replace(
                values[key], key=result, name=COMPUTED + result, constant=as_f32(array.astype(np.float32))
            )
        nodes = tuple(
            replace(node, inputs=tuple(renamed.get(key, key) for key in node.inputs)) for node in self._graph.nodes
        )
        return remove_unused(replace(self._graph, values=values, nodes=nodes))


def _ranges_of_inputs(node: Node, weight: Doubles, groups: int) -> Doubles:
    """Return the greatest weight of each input channel."""
    magnitudes = np.abs(weight)
    if node.op == "depthwise_conv2d":
        return np.asarray(magnitudes.reshape(len(weight), -1).max(axis=1))
    parts = magnitudes.reshape(groups, len(weight) // groups, weight.shape[1], -1)
    return np.asarray(parts.max(axis=(1, 3)).reshape(-1))


def _scale_inputs(node: Node, weight: Doubles, groups: int, factors: Doubles) -> None:
    if node.op == "depthwise_conv2d":
        weight *= factors.reshape(-1, *(1 for _ in weight.shape[1:]))
        return
    parts: NDArray[Any] = weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)
    parts *= factors.reshape(groups, 1, weight.shape[1], 1)
