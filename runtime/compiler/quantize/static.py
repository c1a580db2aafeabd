"""Quantizes a graph to int8 from calibration samples.

residuals apart → channels equalized → int8 nodes chosen → ranges observed → each node's own error measured →
(under an accuracy budget: the worst stay float32) → int8 nodes emitted
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, SupportsFloat

import numpy as np
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import Graph, Port
from alcove.runtime.compiler.quantize.calibrate import Sample, observe
from alcove.runtime.compiler.quantize.cross_layer_equalization import equalize
from alcove.runtime.compiler.quantize.emitter import Emitter, Settings, emit
from alcove.runtime.compiler.quantize.observers import Observer
from alcove.runtime.compiler.quantize.options import Budget, Metric, Quantization
from alcove.runtime.compiler.quantize.partitioner import choose, tensors, without_residuals
from alcove.runtime.compiler.quantize.quantizable_ops import LAYERS, activations
from alcove.runtime.compiler.quantize.report import LayerReport, QuantizationReport, decibels, layer_name
from alcove.runtime.compiler.quantize.scales import scale_of
from alcove.runtime.model import Model, load
from numpy.typing import NDArray

_PART: Final = 16  # nodes measured in one program
_MARK: Final = ":measured"
_TINY: Final = 1e-38  # so that no signal at all divides


@dataclass(frozen=True)
class Recipe:
    """How to quantize one module, whatever the sizes of its inputs.

    Attributes:
        options: as the caller gave them.
        observers: what calibration saw of each tensor.
        excluded: indices of nodes that stay float32.
    """

    options: Quantization
    observers: Mapping[str, Observer]
    excluded: Set[int] = frozenset()

    def prepare(self, graph: Graph) -> Graph:
        """Return a fused graph as the indices of `excluded` see it: without residuals, equalized."""
        return prepare(graph, self.options)

    def apply(self, graph: Graph) -> Graph:
        """Return a fused graph with its int8 regions."""
        base = self.prepare(graph)
        return emit(base, self.settings(base))

    def settings(self, base: Graph) -> Settings:
        """Return regions and scales for a prepared graph."""
        regions = choose(base, self.excluded)
        ranges: dict[str, tuple[float, float]] = {}
        for key in tensors(base, regions):
            low, high = self.observers[key].range(self.options.clipping)
            root = regions.root(key)
            known = ranges.get(root, (low, high))
            ranges[root] = (min(low, known[0]), max(high, known[1]))
        means = {}
        if self.options.correct_bias:
            layers = [base.nodes[index] for index, kind in regions.kinds.items() if kind == "layer"]
            means = {node.inputs[0]: self.observers[node.inputs[0]].channel_means for node in layers}
        return Settings(regions, {root: scale_of(*limits) for root, limits in ranges.items()}, means)


def prepare(graph: Graph, options: Quantization) -> Graph:
    """Return a fused graph without residuals and, if the options say so, equalized."""
    base = without_residuals(graph)
    return equalize(base) if options.equalize else base


def calibrate(
    exact: Graph, graph: Graph, options: Quantization, samples: Sequence[Sample], budget: Budget
) -> tuple[Recipe, QuantizationReport]:
    """Return how to quantize a fused graph, and what that does to it.

    Args:
        exact: float32 throughout, with fixed sizes.
        graph: the same, with its tables in int8.
        options: of mode "int8".
        samples: at least one.
        budget: nodes stay float32, the worst first, until it is kept.

    Raises:
        CalibrationError: a sample makes a number that is not finite.
    """
    base = prepare(graph, options)
    regions = choose(base)
    recipe = Recipe(options, observe(base, tensors(base, regions), samples, options.clipping))
    noise = _noise(base, recipe.settings(base), samples)
    drop_of = _Drop(exact, samples, budget.metric)
    recipe, drop = _within_budget(graph, recipe, noise, drop_of, budget.max_drop)
    layers = _layers(base, recipe, noise)
    return recipe, QuantizationReport("int8", layers, len(samples), drop, budget.max_drop)


# -- errors -------------------------------------------------------------------------------------------------------


def _noise(base: Graph, settings: Settings, samples: Sequence[Sample]) -> dict[int, tuple[float, float]]:
    """Return the energies of signal and noise of each int8 node by itself, fed with float32."""
    measured = [index for index, kind in sorted(settings.regions.kinds.items()) if kind != "movement"]
    hidden = set(settings.regions.clamps.values())
    measured = [index for index in measured if index not in hidden]
    energies: dict[int, tuple[float, float]] = {}
    for start in range(0, len(measured), _PART):
        part = measured[start : start + _PART]
        emitter = Emitter(base, settings)
        values, nodes, ports = dict(base.values), list(base.nodes), []
        for index in part:
            result, new, seen = emitter.beside(index, f"{_MARK}{index}")
            values |= new
            nodes += result
            ports += [Port(f"float_{index}", seen.removesuffix(f"{_MARK}{index}")), Port(f"int8_{index}", seen)]
        model = load(
            generate_program(
                eliminate_dead_code(replace(base, values=values, nodes=tuple(nodes), outputs=tuple(ports)))
            )
        )
        totals = np.zeros((len(part), 2))
        for sample in samples:
            results = model(*sample)
            for place, (exact, rough) in enumerate(zip(results[::2], results[1::2], strict=True)):
                totals[place] += _energies(exact, rough)
        energies |= {index: (float(signal), float(error)) for index, (signal, error) in zip(part, totals, strict=True)}
    return energies


def _energies(exact: NDArray[Any], rough: NDArray[Any]) -> tuple[float, float]:
    wide = exact.astype(np.float64)
    return float((wide**2).sum()), float(((wide - rough.astype(np.float64)) ** 2).sum())


class _Drop:
    """How much worse a quantized graph is than its float32 self."""

    def __init__(self, graph: Graph, samples: Sequence[Sample], metric: Metric | None) -> None:
        self._samples = samples
        self._metric = metric
        float_model = load(generate_program(graph))
        self._exact = [float_model(*sample) for sample in samples] if metric is None else []
        self._best = 0.0 if metric is None else _number_of(metric(float_model))

    def __call__(self, graph: Graph) -> float:
        model = load(generate_program(graph))
        if self._metric is not None:
            return self._best - _number_of(self._metric(model))
        return self._relative_noise(model)

    def _relative_noise(self, model: Model) -> float:
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
        return float((noise / np.maximum(signal, _TINY)).max())


def _within_budget(
    graph: Graph,
    recipe: Recipe,
    noise: Mapping[int, tuple[float, float]],
    drop_of: Callable[[Graph], float],
    max_drop: float | None,
) -> tuple[Recipe, float]:
    """Return the recipe that keeps as few of the worst nodes in float32 as the budget asks for, and its drop.

    The nodes are taken by their own relative noise, worst first; how many is found by doubling and bisection.
    """
    drop = drop_of(recipe.apply(graph))
    if max_drop is None or drop <= max_drop:
        return recipe, drop
    worst = sorted(noise, key=lambda index: -noise[index][1] / max(noise[index][0], _TINY))
    tried: dict[int, tuple[Recipe, float]] = {}

    def fits(count: int) -> bool:
        kept = replace(recipe, excluded=frozenset(worst[:count]))
        tried[count] = (kept, drop_of(kept.apply(graph)))
        return tried[count][1] <= max_drop

    enough = 1
    while enough < len(worst) and not fits(enough):
        enough = min(2 * enough, len(worst))
    if enough not in tried:
        fits(enough)
    least = enough // 2 + 1
    while least < enough:
        middle = (least + enough) // 2
        if fits(middle):
            enough = middle
        else:
            least = middle + 1
    return tried[enough]


# -- the report ---------------------------------------------------------------------------------------------------


def _layers(base: Graph, recipe: Recipe, noise: Mapping[int, tuple[float, float]]) -> tuple[LayerReport, ...]:
    settings = recipe.settings(base)
    return tuple(
        _layer(base, settings, index, noise)
        for index in range(len(base.nodes))
        if index in noise or index in settings.regions.reasons
    )


def _layer(base: Graph, settings: Settings, index: int, noise: Mapping[int, tuple[float, float]]) -> LayerReport:
    node, regions = base.nodes[index], settings.regions
    is_int8 = index in regions.kinds
    weights = [base.values[key].array for key in node.inputs[1:3]] if node.op in LAYERS else []
    float_bytes = sum(array.nbytes for array in weights)
    report = LayerReport(
        layer_name(node.origin.module_path, node.outputs[0]),
        _op_name(base, index),
        "int8" if is_int8 else "float32",
        regions.reasons.get(index, ""),
        decibels(*noise[index]) if index in noise else None,
        float_bytes=float_bytes,
        stored_bytes=float_bytes,
    )
    if not is_int8:
        return report
    source = settings.scale(activations(base, node)[0])
    clamp = regions.clamps.get(index)
    target = settings.scale(node.outputs[0] if clamp is None else base.nodes[clamp].outputs[0])
    emitter = Emitter(base, settings)
    emitter.emit(index)
    stored = sum(value.array.nbytes for key, value in emitter.values.items() if key.endswith((":weights", ":table")))
    return replace(
        report,
        input_range=_limits(source.scale, source.zero_point),
        output_range=_limits(target.scale, target.zero_point),
        input_scale=source.scale,
        output_scale=target.scale,
        stored_bytes=stored if float_bytes else 0,
    )


def _op_name(base: Graph, index: int) -> str:
    node = base.nodes[index]
    return node.origin.op.split(".")[1] if node.op in {"unary", "binary"} and "." in node.origin.op else node.op


def _limits(scale: float, zero_point: int) -> tuple[float, float]:
    return (-128 - zero_point) * scale, (127 - zero_point) * scale


def _number_of(argument: object) -> float:
    """Return what a metric gave as a number.

    Raises:
        ValueError: it is none, or NaN, which no budget bounds.
    """
    number = float(argument) if isinstance(argument, SupportsFloat) else math.nan
    if math.isnan(number):
        raise ValueError(f"metric must return a number, more is better, not {argument!r}")
    return number
