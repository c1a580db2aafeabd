"""Reports what quantization did to a program, layer by layer."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

COLUMNS: Final = (
    "layer", "operator", "precision", "SNR dB", "input range", "output range", "float32 bytes", "bytes", "why float32",
    "chosen",
)  # fmt: skip


@dataclass(frozen=True)
class LayerReport:
    """One node of the float32 program that has weights or an int8 form.

    Attributes:
        layer: where it is in the module, as in `named_modules()`, or the tensor that it writes.
        op: the runtime's operator.
        precision: "float32", "int8", "int8 table", "int8 dynamic", "int8 weights", "int4 weights", "float16
            weights" or "bfloat16 weights".
        reason: why it stayed float32; empty otherwise.
        snr_db: signal to noise of its output with quantized weights on float32 inputs, in dB; of its weights where
            there were no calibration samples; None where nothing was rounded.
        input_range: least and greatest input that keeps its value, None where no activation was rounded.
        output_range: likewise.
        input_scale: of int8 inputs, or None.
        output_scale: likewise.
        float_bytes: of its weights in float32.
        stored_bytes: of its weights in the program.
        chosen: what was chosen for it and why, where something else was there to choose; empty otherwise.
    """

    layer: str
    op: str
    precision: str
    reason: str = ""
    snr_db: float | None = None
    input_range: tuple[float, float] | None = None
    output_range: tuple[float, float] | None = None
    input_scale: float | None = None
    output_scale: float | None = None
    float_bytes: int = 0
    stored_bytes: int = 0
    chosen: str = ""


@dataclass(frozen=True)
class QuantizationReport:
    """What quantizing did.

    Attributes:
        mode: the argument of `export`.
        layers: in the order of the program.
        samples: number of calibration samples.
        drop: how much worse the quantized program is on the metric; without a metric, noise energy over signal energy
            of its outputs on the calibration samples; None where there were none.
        max_drop: what was allowed, or None.
        whole: what was chosen for all layers at once and why; empty where each layer has its own.
        trials: whole programs that were made and run to choose.
    """

    mode: str
    layers: tuple[LayerReport, ...]
    samples: int = 0
    drop: float | None = None
    max_drop: float | None = None
    whole: str = ""
    trials: int = 0

    @property
    def kept_float(self) -> tuple[LayerReport, ...]:
        """The layers that stayed float32."""
        return tuple(layer for layer in self.layers if layer.precision == "float32")

    def to_json(self) -> str:
        """Return everything as JSON, for machines."""
        return json.dumps(asdict(self), indent=2)

    @property
    def title(self) -> str:
        """Mode, samples, and the drop beside what was allowed."""
        parts = [f"quantization: {self.mode}"]
        if self.samples:
            parts.append(f"{self.samples} samples")
        if self.drop is not None:
            allowed = "" if self.max_drop is None else f" of at most {self.max_drop:g}"
            parts.append(f"drop {self.drop:.4g}{allowed}")
        if self.whole:
            parts.append(self.whole)
        return ", ".join(parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """What stands in the columns of `rows`."""
        return COLUMNS

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each layer, as texts under `columns`."""
        return [
            (
                layer.layer,
                layer.op,
                layer.precision,
                "" if layer.snr_db is None else f"{layer.snr_db:.1f}",
                _range(layer.input_range),
                _range(layer.output_range),
                f"{layer.float_bytes:,}" if layer.float_bytes else "",
                f"{layer.stored_bytes:,}" if layer.float_bytes else "",
                layer.reason,
                layer.chosen,
            )
            for layer in self.layers
        ]

    def __str__(self) -> str:
        """Everything as a table of plain text."""
        rows = [COLUMNS, *self.rows()]
        widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self.title, *lines])


def _range(limits: Sequence[float] | None) -> str:
    return "" if limits is None else f"{limits[0]:.4g} … {limits[1]:.4g}"


def decibels(signal: float, noise: float) -> float | None:
    """Return 10 log10(signal / noise); None where there is no noise or no signal."""
    return None if noise <= 0 or signal <= 0 else 10 * math.log10(signal / noise)


def layer_name(module_path: str, output: str) -> str:
    """Return what people call a node."""
    return module_path or f"%{output}"
