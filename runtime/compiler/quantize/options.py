"""Defines the options of quantization that a caller of `export` gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from alcove.runtime.compiler.quantize.packing import GROUPS

Mode: TypeAlias = Literal[
    "int8", "int8_dynamic", "int8_weights", "int4_dynamic", "int4_weights", "float16_weights", "bfloat16_weights"
]
Clipping: TypeAlias = Literal["minmax", "mse", "entropy"]
Precision: TypeAlias = Literal["int8", "int8 dynamic", "float32"]

MODES: Final[tuple[Mode, ...]] = (
    "int8", "int8_dynamic", "int8_weights", "int4_dynamic", "int4_weights", "float16_weights", "bfloat16_weights",
)  # fmt: skip
CLIPPINGS: Final[tuple[Clipping, ...]] = ("mse", "minmax", "entropy")
PRECISIONS: Final[tuple[Precision, ...]] = ("int8", "int8 dynamic", "float32")

Run: TypeAlias = Callable[..., list[Any]]
"""A program: takes its inputs, returns its outputs."""
Metric: TypeAlias = Callable[[Run], float]
"""How good a program is; more is better."""


@dataclass(frozen=True)
class Quantization:
    """How `export` quantizes.  What is None is chosen for each layer, by what it does to the calibration samples.

    Attributes:
        mode: "int8": tables of embeddings in int8 and, given calibration samples, weights and activations of all that
            has an int8 form; "int8_dynamic": linears with int8 weights, whose inputs are quantized row by row as they
            come; "int4_dynamic": linears with weights of 4 bits, whose inputs are quantized to int8 group by group
            likewise; "int8_weights", "int4_weights": linears with smaller weights, computed in float32.  In
            these four recurrent layers have int8 weights; all but the products of the dynamic modes is float32.
            "float16_weights", "bfloat16_weights": weights of all products and tables in 16 bits, computed in float32.
        clipping: how the range of an activation is chosen from what was seen: all of it, the range with the least
            squared error, or the one that keeps most information (KL divergence).
        equalize: whether pairs of layers share their channels' ranges before they are quantized.
        correct_bias: whether biases make up for the mean error of rounded weights.
        group: inputs that share a scale in "int4_dynamic" and "int4_weights": 32 or 64.
        layers: precision of layers by their name in `named_modules()`, for "int8": "int8", "int8 dynamic"
            (linears, convolutions that are one) or "float32".

    Raises:
        ValueError: an attribute has none of these values.
    """

    mode: Mode
    clipping: Clipping | None = None
    equalize: bool | None = None
    correct_bias: bool | None = None
    group: int = 32
    layers: Mapping[str, Precision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("mode", self.mode, MODES),
            ("clipping", self.clipping, (*CLIPPINGS, None)),
            ("group", self.group, GROUPS),
            *(("layers", precision, PRECISIONS) for precision in self.layers.values()),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {known}, not {value!r}")


@dataclass(frozen=True)
class Budget:
    """How much worse than float32 a program may be.

    Attributes:
        max_drop: on the metric; None for any.
        metric: what counts; None for the noise of the outputs on the samples, as a share of their energy.
    """

    max_drop: float | None = None
    metric: Metric | None = None
