"""Measures quantization noise: of each node by itself, and of a whole graph beside its float32 self."""

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, SupportsFloat

import numpy as np
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import Graph, Port
from alcove.runtime.compiler.quantize.calibrate import Sample
from alcove.runtime.compiler.quantize.emitter import Emitter, Settings
from alcove.runtime.compiler.quantize.observers import MOST_ELEMENTS
from alcove.runtime.compiler.quantize.options import Metric
from alcove.runtime.compiler.quantize.report import decibels
from alcove.runtime.model import Model, load
from numpy.typing import NDArray

MOST_SAMPLES: Final = 16
"""Samples on which nodes are measured by themselves; every so many of all."""
_PART: Final = 24  # nodes measured in one program
_MARK: Final = ":measured"
TINY: Final = 1e-38  # so that no signal at all divides


@dataclass(frozen=True)
class NodeNoise:
    """What quantizing does to one node's output.

    Attributes:
        signal: energy of each channel (the last dimension) in float32.
        error: energy of each channel's error.
    """

    signal: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def relative(self) -> float:
        """Noise as a share of the signal, at most 1."""
        return min(1.0, float(self.error.sum()) / max(float(self.signal.sum()), TINY))

    @property
    def uneven(self) -> float:
        """The mean share over channels: near 1 where the scale of a few channels rounds all others away."""
        return float(np.minimum(1.0, self.error / np.maximum(self.signal, TINY)).mean())

    @property
    def db(self) -> float | None:
        """Signal to noise in dB."""
        return decibels(float(self.signal.sum()), float(self.error.sum()))


def spread(samples: Sequence[Sample], count: int = MOST_SAMPLES) -> Sequence[Sample]:
    """Return at most `count` samples, evenly from all."""
    return samples[:: -(-len(samples) // count)]


def measure_nodes(
    base: Graph, settings: Settings, samples: Sequence[Sample], *, dynamic: Set[int] | None = None
) -> dict[int, NodeNoise]:
    """Return the noise of each int8 node by itself, fed with float32.

    Args:
        base: a prepared graph.
        settings: for it.
        samples: at least one.
        dynamic: measure these linears instead, with rows that are quantized as they come.
    """
    hidden = set(settings.regions.clamps.values())
    static = [i for i, kind in sorted(settings.regions.kinds.items()) if kind != "movement" and i not in hidden]
    measured = static if dynamic is None else sorted(dynamic)
    found: dict[int, NodeNoise] = {}
    for start in range(0, len(measured), _PART):
        part = measured[start : start + _PART]
        emitter = Emitter(base, settings)
        values, nodes, ports = dict(base.values), list(base.nodes), []
        for index in part:
            beside = emitter.beside if dynamic is None else emitter.beside_dynamic
            result, new, seen = beside(index, f"{_MARK}{index}")
            values |= new
            nodes += result
            ports += [Port(f"float_{index}", seen.removesuffix(f"{_MARK}{index}")), Port(f"int8_{index}", seen)]
        graph = replace(base, values=values, nodes=tuple(nodes), outputs=tuple(ports))
        model = load(generate_program(eliminate_dead_code(graph)))
        signals = [np.zeros(1)] * len(part)
        errors = [np.zeros(1)] * len(part)
        for sample in samples:
            results = model(*sample)
            for place, (exact, rough) in enumerate(zip(results[::2], results[1::2], strict=True)):
                wide = _rows(exact)
                signals[place] = signals[place] + (wide**2).sum(axis=0)
                errors[place] = errors[place] + ((wide - _rows(rough)) ** 2).sum(axis=0)
        found |= {index: NodeNoise(signals[place], errors[place]) for place, index in enumerate(part)}
    return found


def _rows(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows of channels; of a large array some, evenly from all."""
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
    step = -(-rows.size // MOST_ELEMENTS)
    return np.asarray(rows[:: step | 1] if step > 1 else rows, np.float64)


def _energies(exact: NDArray[Any], rough: NDArray[Any]) -> tuple[float, float]:
    wide = exact.astype(np.float64)
    return float((wide**2).sum()), float(((wide - rough.astype(np.float64)) ** 2).sum())


class OutputNoise:
    """The noise of a graph's outputs as a share of their energy; the worst output's."""

    def __init__(self, graph: Graph, samples: Sequence[Sample]) -> None:
        self._samples = samples
        float_model = load(generate_program(graph))
        self._exact = [float_model(*sample) for sample in samples]

    def __call__(self, graph: Graph) -> float:
        """Return it for a quantized graph."""
        model = load(generate_program(graph))
        signal = np.zeros(len(model.outputs))
        noise = np.zeros(len(model.outputs))
        for sample, exact in zip(self._samples, self._exact, strict=True):
            for place, (one, other) in enumerate(zip(exact, model(*sample), strict=True)):
                if one.dtype.kind == "f":
                    energies = _energies(one, other)
                else:
                    energies = (float(one.size), float((one != other).sum()))
                signal[place] += energies[0]
                noise[place] += energies[1]
        return float((noise / np.maximum(signal, TINY)).max())


class MetricDrop:
    """How much worse a quantized graph is on the caller's metric.

    Raises:
        ValueError: the metric gives no number.
    """

    def __init__(self, graph: Graph, metric: Metric) -> None:
        self._metric = metric
        self._best = self._measure(graph)

    def __call__(self, graph: Graph) -> float:
        """Return it for a quantized graph."""
        return self._best - self._measure(graph)

    def _measure(self, graph: Graph) -> float:
        model: Model = load(generate_program(graph))
        found: object = self._metric(model)
        number = float(found) if isinstance(found, SupportsFloat) else math.nan
        if math.isnan(number):
            raise ValueError(f"metric must return a number, more is better, not {found!r}")
        return number
