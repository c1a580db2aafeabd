"""Chooses the inputs that a program is timed with: its certificate's, or made ones at a few of the sizes it takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from alcove.runtime import InputError, Model
from alcove.runtime.certificate.document import decode_input, parse
from alcove.runtime.errors import CertificateError
from alcove.runtime.format.fixed import at_sizes
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.testing import NUMPY_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Timed", "timed_inputs"]

SEED: Final = 11
TEXT: Final = "Wo ist der Bahnhof, bitte? I need to catch my train."
BOUNDS: Final = (1 << 16, 1 << 12, 256, 16, 2, 1)
"""Of whole numbers, tried from the greatest: they may be indices of tables whose sizes no signature tells."""

_ABOVE: Final = {DType.BOOL: 2, DType.I8: 128, DType.U8: 256}


@dataclass(frozen=True)
class Timed:
    """One set of inputs.

    Attributes:
        size: the sizes, as "n=32"; "" for a program whose sizes are all known.
        origin: "certificate" or "made".
        inputs: one for each port.
    """

    size: str
    origin: str
    inputs: "tuple[str | NDArray[Any], ...]"


def timed_inputs(program: bytes, model: Model) -> list[Timed]:
    """Return what a program is timed with: least, middle and greatest sizes where they vary; each was tried once.

    Raises:
        InputError: no inputs made here are taken.
    """
    sampled = None if _varies(model) else _of_certificate(model)
    if sampled is not None:
        return [sampled]
    spec = read_spec(program).find_method(model.name)
    found: list[Timed] = []
    problem: InputError | None = None
    for at in _sizes(spec):
        try:
            inputs = _make_arrays(model, _shapes(spec, at))
        except InputError as error:  # sizes within their bounds may still not go together
            problem = error
            continue
        size = ", ".join(f"{symbol.name}={value}" for symbol, value in zip(spec.symbols, at, strict=True))
        found.append(Timed(size, "made", inputs))
    if problem is not None and not found:
        raise problem
    return found


def _varies(model: Model) -> bool:
    return any(".." in dim for port in model.inputs for dim in port.dims)


def _of_certificate(model: Model) -> Timed | None:
    if not model.certificate:
        return None
    try:
        samples = parse(model.certificate).samples
        of_method = next(sample for sample in samples if (sample.method or model.name) == model.name)
        inputs = tuple(decode_input(0, value) for value in of_method.inputs)
        model(*inputs)
    except (CertificateError, InputError, StopIteration):
        return None  # `model verify` says what is wrong with it
    return Timed("", "certificate", inputs)


def _sizes(spec: ProgramSpec) -> list[list[int]]:
    ends = [(symbol.min, math.isqrt(symbol.min * symbol.max), symbol.max) for symbol in spec.symbols]
    return [list(at) for at in dict.fromkeys(zip(*ends, strict=True))] if ends else [[]]


def _shapes(spec: ProgramSpec, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    tensors = at_sizes(spec, sizes).tensors
    return [tensors[port.tensor].shape for port in spec.inputs]


def _make_arrays(model: Model, shapes: Sequence[tuple[int, ...]]) -> "tuple[str | NDArray[Any], ...]":
    """Return inputs that the program takes: numbers around 0 for floats, whole numbers as large as it lets them be."""
    problem: InputError | None = None
    for bound in BOUNDS:
        random = np.random.default_rng(SEED)
        inputs = tuple(
            _input(random, port.dtype, shape, bound) for port, shape in zip(model.inputs, shapes, strict=True)
        )
        try:
            model(*inputs)
        except InputError as error:
            problem = error
        else:
            return inputs
    assert problem is not None  # noqa: S101 - BOUNDS is not empty
    raise problem


def _input(random: np.random.Generator, dtype: DType, shape: tuple[int, ...], bound: int) -> "str | NDArray[Any]":
    if dtype is DType.TEXT:
        return TEXT
    if dtype is DType.F32:
        return random.standard_normal(shape, np.float32)
    numbers = random.integers(0, min(bound, _ABOVE.get(dtype, bound)), shape)
    return np.asarray(numbers, NUMPY_TYPES[dtype])
