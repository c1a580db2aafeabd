"""Quantizes a module's graph to int8 or int4.

`Quantizer` is what the pipeline uses: made once for a module from the caller's wishes and samples, applied to its graph
at every size.
"""

from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.quantize.calibrate import check_samples
from alcove.runtime.compiler.quantize.calibration_free import quantize_without_calibration
from alcove.runtime.compiler.quantize.embedding_quantization import quantize_embeddings, table_reports
from alcove.runtime.compiler.quantize.half_weights import HALF_MODES, round_weights
from alcove.runtime.compiler.quantize.options import MODES, Budget, Metric, Mode, Quantization
from alcove.runtime.compiler.quantize.recipe import Recipe
from alcove.runtime.compiler.quantize.report import LayerReport, QuantizationReport
from alcove.runtime.compiler.quantize.static import calibrate
from alcove.runtime.errors import QuantizationError
from alcove.runtime.format.spec import DType

__all__ = [
    "MODES",
    "Budget",
    "LayerReport",
    "Metric",
    "Mode",
    "Quantization",
    "QuantizationReport",
    "Quantizer",
    "half_of",
    "options_of",
]


def options_of(
    quantize: str | Quantization | None, calibration: object, max_drop: float | None, metric: object
) -> Quantization | None:
    """Return what a caller of `export` wishes.

    Raises:
        ValueError: the wishes contradict each other, or name what there is not.
    """
    options = quantize
    if isinstance(options, str):
        if options not in MODES:
            raise ValueError(f"quantize must be one of {(None, *MODES)} or a Quantization, not {quantize!r}")
        options = Quantization(options)
    if calibration is not None and (options is None or options.mode != "int8"):
        raise ValueError('calibration samples are for quantize="int8"; no other mode uses any')
    if (max_drop is not None or metric is not None) and calibration is None:
        raise ValueError("max_drop and metric need calibration samples")
    if max_drop is not None and not max_drop >= 0:
        raise ValueError(f"max_drop must be 0 or more, not {max_drop}")
    if metric is not None and not callable(metric):
        raise ValueError(f"metric must be a function of a program, not {type(metric).__name__}")
    return options


def half_of(options: Quantization | None) -> DType | None:
    """Return the type of 16 bits that weights are stored in, or None."""
    return None if options is None else HALF_MODES.get(options.mode)


_LINEARS: Final = (
    "makes linears and recurrent layers smaller, and this module has none that can be, so the program would be the "
    "float32 one; convolutions become smaller by 'int8' with calibration samples"
)
_PRODUCTS: Final = (
    "stores weights of products and tables in 16 bits, and this module has none that can be, so the program would be "
    "the float32 one"
)
_NOTHING_SMALLER: Final[dict[str, str]] = {
    "int8": (
        "quantize='int8' without calibration samples makes tables of embeddings smaller, and this module has none that "
        "can be, so the program would be the float32 one: give real inputs (calibration=...; on the command line "
        "--calibration MODULE:FUNCTION), or take 'int8_dynamic' or 'int8_weights', which need none"
    ),
    **{mode: f"quantize={mode!r} {_LINEARS}" for mode in MODES if mode != "int8" and mode not in HALF_MODES},
    **{mode: f"quantize={mode!r} {_PRODUCTS}" for mode in HALF_MODES},
}


class Quantizer:
    """Quantizes one module's graph.

    Args:
        options: None leaves everything as it is.
        recipe: what calibration found, for int8 activations.

    Attributes:
        report: what quantizing did, once it has; None for no options.
    """

    def __init__(self, options: Quantization | None, recipe: Recipe | None = None) -> None:
        self._options = options
        self._recipe = recipe
        self.report: QuantizationReport | None = None

    @staticmethod
    def calibrate(options: Quantization, graph: Graph, calibration: object, budget: Budget) -> "Quantizer":
        """Return one that quantizes activations, from samples for the inputs of a fused graph.

        Raises:
            CalibrationError: the samples do not fit, or make numbers that are not finite.
        """
        samples = check_samples(graph, calibration)
        exact, graph = graph, quantize_embeddings(graph)
        recipe, report = calibrate(exact, graph, options, samples, budget)
        result = Quantizer(options, recipe)
        result.report = replace(report, layers=table_reports(graph) + report.layers)
        return result

    def __call__(self, graph: Graph) -> Graph:
        """Return a fused graph with fewer bits.

        Raises:
            ExportError: a table holds a value that is not finite or too large.
            QuantizationError: without calibration samples, nothing became smaller.
        """
        if self._options is None:
            return graph
        if self._options.mode in HALF_MODES:
            graph, self.report = round_weights(graph, self._options.mode)
            return self._if_smaller(graph)
        graph = quantize_embeddings(graph)
        if self._options.mode == "int8":
            if self._recipe is None:
                self.report = QuantizationReport("int8", table_reports(graph))
                return self._if_smaller(graph)
            return self._recipe.apply(graph)
        tables = table_reports(graph)
        graph, report = quantize_without_calibration(graph, self._options)
        self.report = replace(report, layers=tables + report.layers)
        return self._if_smaller(graph)

    def _if_smaller(self, graph: Graph) -> Graph:
        layers = () if self.report is None else self.report.layers
        if self._options is None or any(layer.precision != "float32" for layer in layers):
            return graph
        reasons = "".join(f"; {layer.layer} ({layer.op}): {layer.reason}" for layer in layers[:3])
        raise QuantizationError(self._options.mode, _NOTHING_SMALLER[self._options.mode] + reasons)
