"""Runs calibration samples, and collects what the tensors of a graph hold on them.

The graph is run natively, as the program that it would be, with the wanted tensors as its outputs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch.utils._pytree as pytree
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import Graph, Port
from alcove.runtime.compiler.quantize.observers import Observer
from alcove.runtime.compiler.quantize.options import Clipping
from alcove.runtime.errors import CalibrationError, InputError
from alcove.runtime.format.spec import DType
from alcove.runtime.model import Model, load
from numpy.typing import NDArray

PORTS: Final = 48  # of 64 that a program may have
PART_BYTES: Final = 64 << 20  # outputs hold their memory to the end of a run

Sample = tuple[Any, ...]
"""The inputs of one run, one for each port: arrays, and texts as `str`."""

_NUMPY: Final = {
    DType.F32: np.float32,
    DType.I8: np.int8,
    DType.I32: np.int32,
    DType.I64: np.int64,
    DType.U8: np.uint8,
    DType.BOOL: np.bool_,
}


def check_samples(graph: Graph, calibration: object) -> list[Sample]:
    """Return calibration samples as a program takes them.

    Args:
        graph: whose inputs they are for.
        calibration: an iterable of samples, each the arguments of `forward` in any nesting, or its only argument by
            itself; tensors, arrays and texts.

    Raises:
        CalibrationError: there is none, or one does not fit the inputs.
    """
    if isinstance(calibration, str | bytes) or not hasattr(calibration, "__iter__"):
        raise CalibrationError(f"calibration must be a sequence of samples, not {type(calibration).__name__}")
    samples = []
    for index, argument in enumerate(calibration):
        leaves = pytree.tree_leaves(argument)
        values = tuple(leaf.detach().cpu().numpy() if hasattr(leaf, "detach") else leaf for leaf in leaves)
        if len(values) != len(graph.inputs):
            raise CalibrationError(f"it has {len(values)} tensors, expected {len(graph.inputs)}", sample=index)
        for value, port in zip(values, graph.inputs, strict=True):
            reason = _misfit(graph, port, value)
            if reason:
                raise CalibrationError(f"{port.name}: {reason}", sample=index)
        samples.append(values)
    if not samples:
        raise CalibrationError("calibration: expected at least 1 sample, got none")
    return samples


def _misfit(graph: Graph, port: Port, value: Any) -> str:
    expected = graph.values[port.value]
    if expected.dtype is DType.TEXT:
        return "" if isinstance(value, str) else f"{type(value).__name__}, expected a str"
    if not isinstance(value, np.ndarray):
        return f"{type(value).__name__}, expected a tensor"
    if value.dtype != _NUMPY[expected.dtype]:
        return f"{value.dtype}, expected {np.dtype(_NUMPY[expected.dtype])}"
    shape = tuple(map(int, expected.shape))  # of the largest sizes, where they vary
    is_fitting = value.shape == shape or (
        expected.is_ragged and value.shape[1:] == shape[1:] and value.shape[0] <= shape[0]
    )
    if not is_fitting:
        return f"shape {list(value.shape)}, expected {list(shape)}"
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return "it holds a NaN or an infinity"
    return ""


def runs(graph: Graph, keys: Sequence[str], samples: Sequence[Sample]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield (tensor, its elements) for each of `keys` and each sample; all samples of some tensors, then of others.

    Raises:
        CalibrationError: an index in a sample is out of range.
    """
    for part in _parts(graph, keys):
        model = model_of(graph, part)
        for index, sample in enumerate(samples):
            try:
                found = model(*sample)
            except InputError as error:
                raise CalibrationError(str(error), sample=index) from error
            yield from zip(part, found, strict=True)


def model_of(graph: Graph, keys: Sequence[str]) -> Model:
    """Return a program with the inputs of `graph` that gives the tensors `keys`."""
    ports = tuple(Port(f"tensor_{index}", key) for index, key in enumerate(keys))
    return load(generate_program(eliminate_dead_code(replace(graph, outputs=ports))))


def _parts(graph: Graph, keys: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for key in keys:
        value = graph.values[key]
        part.append(key)
        size += math.prod(value.shape) * 4
        if len(part) == PORTS or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def observe(graph: Graph, keys: Sequence[str], samples: Sequence[Sample], clipping: Clipping) -> Mapping[str, Observer]:
    """Return what the samples make of each of `keys`.

    Raises:
        CalibrationError: one of them is not finite.
    """
    observers = {key: Observer() for key in keys}
    for key, array in runs(graph, keys, samples):
        if not np.isfinite(array).all():
            name = graph.values[key].name
            raise CalibrationError(f"%{name} becomes infinite or NaN", sample=observers[key].samples)
        observers[key].see(array)
    if clipping != "minmax":
        for key, array in runs(graph, keys, samples):
            observers[key].count(array)
    return observers
