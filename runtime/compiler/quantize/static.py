"""Quantizes a graph to int8 from calibration samples.

residuals apart → ranges observed → each choice measured (`selection`) → int8 nodes emitted
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.quantize.calibrate import Sample
from alcove.runtime.compiler.quantize.calibration_free import smaller_linear
from alcove.runtime.compiler.quantize.emitter import DYNAMIC, Emitter, Settings
from alcove.runtime.compiler.quantize.noise import NodeNoise
from alcove.runtime.compiler.quantize.options import Budget, Quantization
from alcove.runtime.compiler.quantize.quantizable_ops import LAYERS, activations
from alcove.runtime.compiler.quantize.recipe import Recipe
from alcove.runtime.compiler.quantize.report import LayerReport, QuantizationReport, layer_name
from alcove.runtime.compiler.quantize.selection import Selection, describe, select


def calibrate(
    exact: Graph, graph: Graph, options: Quantization, samples: Sequence[Sample], budget: Budget
) -> tuple[Recipe, QuantizationReport]:
    """Return how to quantize a fused graph, and what that does to it.

    Args:
        exact: float32 throughout, with fixed sizes.
        graph: the same, with its tables in int8.
        options: of mode "int8".
        samples: at least one.
        budget: nodes get more precision, those first that spoil the outputs most, until it is kept.

    Raises:
        CalibrationError: a sample makes a number that is not finite.
        ValueError: the options name a layer that there is not.
    """
    selection = select(exact, graph, options, samples, budget)
    base = selection.recipe.prepare(graph)
    settings = selection.recipe.settings(base)
    layers = tuple(
        replace(_report(base, settings, index, selection), chosen=describe(index, selection))
        for index in range(len(base.nodes))
        if index in selection.noise or index in settings.regions.reasons
    )
    report = QuantizationReport(
        "int8", layers, len(samples), selection.drop, budget.max_drop, selection.whole, selection.trials
    )
    return selection.recipe, report


def _report(base: Graph, settings: Settings, index: int, selection: Selection) -> LayerReport:
    node, regions = base.nodes[index], settings.regions
    weights = [base.values[key].array for key in node.inputs[1:3]] if node.op in LAYERS else []
    float_bytes = sum(array.nbytes for array in weights)
    report = LayerReport(
        layer_name(node.origin.module_path, node.outputs[0]),
        _op_name(base, index),
        "float32",
        regions.reasons.get(index, ""),
        _db(selection.noise, index),
        float_bytes=float_bytes,
        stored_bytes=float_bytes,
    )
    if index in settings.dynamic:
        _, layer = smaller_linear(dict(base.values), node, DYNAMIC)
        db = _db(selection.dynamic, index)
        return replace(report, precision="int8 dynamic", reason="", snr_db=db, stored_bytes=layer.stored_bytes)
    if index not in regions.kinds:
        return report
    source = settings.scale(activations(base, node)[0])
    clamp = regions.clamps.get(index)
    target = settings.scale(node.outputs[0] if clamp is None else base.nodes[clamp].outputs[0])
    emitter = Emitter(base, settings)
    emitter.emit(index)
    stored = sum(value.array.nbytes for key, value in emitter.values.items() if key.endswith((":weights", ":table")))
    return replace(
        report,
        precision="int8",
        input_range=_limits(source.scale, source.zero_point),
        output_range=_limits(target.scale, target.zero_point),
        input_scale=source.scale,
        output_scale=target.scale,
        stored_bytes=stored if float_bytes else 0,
    )


def _db(noise: Mapping[int, NodeNoise], index: int) -> float | None:
    return noise[index].db if index in noise else None


def _op_name(base: Graph, index: int) -> str:
    node = base.nodes[index]
    return node.origin.op.split(".")[1] if node.op in {"unary", "binary"} and "." in node.origin.op else node.op


def _limits(scale: float, zero_point: int) -> tuple[float, float]:
    return (-128 - zero_point) * scale, (127 - zero_point) * scale
