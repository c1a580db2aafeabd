"""Rounds the weights of products and tables to float16 or bfloat16; the arithmetic stays float32.

    float16_weights    11 bits of precision, up to 65504; below 2**-14 it is absolute
    bfloat16_weights   8 bits of precision, with the range of float32

What is rounded here is stored in 16 bits when the program is written (`format/halves.py`), so its bits are those of the
program of a module whose weights were rounded before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.pack import PACKERS
from alcove.runtime.compiler.quantize.options import Mode
from alcove.runtime.compiler.quantize.report import LayerReport, QuantizationReport, decibels, layer_name
from alcove.runtime.format.halves import Floats, round_to
from alcove.runtime.format.spec import DType

HALF_MODES: Final[dict[Mode, DType]] = {"float16_weights": DType.F16, "bfloat16_weights": DType.BF16}

_PLACES: Final = {"index_select": (0,), "text_embedding_bag": (1,), "embedding_bag_offsets": (1,), "matmul": (0, 1)}
"""Where operators that are no packed products have weights, if these are constant."""
_RECURRENT: Final = ("rnn", "gru", "lstm")
_LEAST_DECIBELS: Final = 50.0
"""Rounding to bfloat16 leaves about 55, to float16 about 73, unless most weights are too small for it."""


@dataclass(frozen=True)
class _Layer:
    """A node with constant float32 weights.

    Attributes:
        node: of the graph.
        exact: its weights as they were, by key.
        rounded: the same in the type that was asked for.
    """

    node: Node
    exact: Mapping[str, Floats]
    rounded: Mapping[str, Floats]

    @property
    def name(self) -> str:
        """What people call it."""
        return layer_name(self.node.origin.module_path, self.node.outputs[0])

    @property
    def snr_db(self) -> float | None:
        """Of its weights."""
        pairs = [(self.exact[key].astype(np.float64), self.rounded[key]) for key in self.exact]
        signal = sum(float((exact**2).sum()) for exact, _ in pairs)
        return decibels(signal, sum(float(((exact - rounded) ** 2).sum()) for exact, rounded in pairs))

    def reason(self, kind: str) -> str:
        """Return why its weights stay float32 by themselves; empty if they do not."""
        for key, exact in self.exact.items():
            if not np.isfinite(exact).all():
                return "weights that are not finite"
            if not np.isfinite(self.rounded[key]).all():
                return f"weights up to {float(np.abs(exact).max()):.4g}, beyond the largest {kind}"
        precision = self.snr_db
        if precision is not None and precision < _LEAST_DECIBELS:
            return f"weights too small for {kind}: rounding leaves {precision:.1f} dB"
        return ""

    def report(self, precision: str, reason: str) -> LayerReport:
        """Return what became of it."""
        size = sum(exact.nbytes for exact in self.exact.values())
        return LayerReport(
            self.name,
            self.node.op,
            "float32" if reason else precision,
            reason,
            snr_db=None if reason else self.snr_db,
            float_bytes=size,
            stored_bytes=size if reason else size // 2,
        )


def round_weights(graph: Graph, mode: Mode) -> tuple[Graph, QuantizationReport]:
    """Return a fused graph with weights rounded to the type of `mode`, and what that did.

    A layer with a weight that float16 cannot hold, or holds with too few bits, keeps all of its own as they are, and so
    do layers that share one with it.
    """
    dtype, precision = HALF_MODES[mode], mode.replace("_", " ")
    exact = {key: graph.values[key].array for node in graph.nodes for key in _weights(graph, node)}
    rounded = {key: round_to(array, dtype) for key, array in exact.items()}
    layers = [
        _Layer(node, {key: exact[key] for key in keys}, rounded)
        for node in graph.nodes
        if (keys := _weights(graph, node))
    ]
    reasons = [layer.reason(precision.partition(" ")[0]) for layer in layers]
    while shared := _shared_reasons(layers, reasons):
        reasons = [reason or shared.get(place, "") for place, reason in enumerate(reasons)]
    kept = {key for layer, reason in zip(layers, reasons, strict=True) if reason for key in layer.exact}
    values = dict(graph.values)
    for key in exact.keys() - kept:
        values[key] = replace(values[key], constant=rounded[key])
    reports = tuple(layer.report(precision, reason) for layer, reason in zip(layers, reasons, strict=True))
    return replace(graph, values=values), QuantizationReport(mode, reports)


def _weights(graph: Graph, node: Node) -> tuple[str, ...]:
    """Return the keys of a node's constant float32 weights."""
    if node.op in PACKERS:
        places: Iterable[int] = (1, 2)
    else:
        places = range(1, len(node.inputs)) if node.op in _RECURRENT else _PLACES.get(node.op, ())
    values = [graph.values[key] for key in dict.fromkeys(node.inputs[place] for place in places)]
    return tuple(value.key for value in values if value.constant is not None and value.dtype is DType.F32)


def _shared_reasons(layers: Sequence[_Layer], reasons: Sequence[str]) -> dict[int, str]:
    """Return reasons for layers that have none yet and share a weight with one that has, by their places."""
    kept = {key: layer.name for layer, reason in zip(layers, reasons, strict=True) if reason for key in layer.exact}
    return {
        place: f"it shares a weight with {kept[key]}, which stays float32"
        for place, layer in enumerate(layers)
        if not reasons[place]
        for key in layer.exact
        if key in kept
    }
