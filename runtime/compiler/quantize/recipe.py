"""Holds what was chosen for each layer and tensor of a module, and applies it to its graph at any size."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.quantize.cross_layer_equalization import equalize
from alcove.runtime.compiler.quantize.emitter import Settings, emit
from alcove.runtime.compiler.quantize.observers import Observer
from alcove.runtime.compiler.quantize.options import Clipping, Precision
from alcove.runtime.compiler.quantize.partitioner import Regions, choose, tensors, without_residuals
from alcove.runtime.compiler.quantize.scales import scale_of

COSTS: Final = "it costs too much accuracy"
PINNED: Final = "the caller wants it so"
NARROW: Final = "its few outputs are faster in float32"


@dataclass(frozen=True)
class Recipe:
    """How to quantize one module, whatever the sizes of its inputs.

    Attributes:
        observers: what calibration saw of each tensor of the graph as `prepare` gives it.
        clipping: of tensors that `clippings` does not name.
        clippings: tensor that gives its scale to others -> how its range is chosen.
        precisions: index of a node -> what it runs in, if not in static int8.
        reasons: index of a node -> why it has its precision.
        unequalized: indices of layers that share no ranges with their neighbors; None for all.
        uncorrected: indices of layers without bias correction; None for all.
    """

    observers: Mapping[str, Observer]
    clipping: Clipping = "mse"
    clippings: Mapping[str, Clipping] = field(default_factory=dict)
    precisions: Mapping[int, Precision] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    unequalized: Set[int] | None = frozenset()
    uncorrected: Set[int] | None = frozenset()

    def prepare(self, graph: Graph) -> Graph:
        """Return a fused graph as the indices of nodes mean it: without residuals, equalized."""
        base = without_residuals(graph)
        return base if self.unequalized is None else equalize(base, self.unequalized)

    def apply(self, graph: Graph) -> Graph:
        """Return a fused graph with its int8 regions."""
        base = self.prepare(graph)
        return emit(base, self.settings(base))

    def regions(self, base: Graph) -> Regions:
        """Return what of a prepared graph runs in static int8."""
        others = {index: self.reasons.get(index, COSTS) for index in self.precisions}
        return choose(base, others)

    def settings(self, base: Graph) -> Settings:
        """Return regions and scales for a prepared graph."""
        regions = self.regions(base)
        ranges: dict[str, tuple[float, float]] = {}
        for key in tensors(base, regions):
            root = regions.root(key)
            low, high = self.observers[key].range(self.clippings.get(root, self.clipping))
            known = ranges.get(root, (low, high))
            ranges[root] = (min(low, known[0]), max(high, known[1]))
        means = {}
        for index, kind in regions.kinds.items():
            if kind == "layer" and self.uncorrected is not None and index not in self.uncorrected:
                node = base.nodes[index]
                means[node.outputs[0]] = self.observers[node.inputs[0]].channel_means
        dynamic = frozenset(index for index, precision in self.precisions.items() if precision == "int8 dynamic")
        return Settings(regions, {root: scale_of(*limits) for root, limits in ranges.items()}, means, dynamic)


Drop = Callable[[Graph], float]
"""How much worse a quantized graph is than its float32 self."""
