"""Compares answers with those of ONNX Runtime, if it is installed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.platform.cli.importing.onnx_files.reader import opsets_of, sort_nodes
from alcove.runtime.certificate import Procedural
from numpy.typing import NDArray
from onnx import (
    ModelProto,
    TensorProto,
    ValueInfoProto,
    load,
    load_model_from_string,
    numpy_helper,
)

Arrays = Sequence[NDArray[Any]]
Run = Callable[[Arrays], Arrays]

FLAT: Final = 1e-3
"""An output of less range, such as a map in which nothing is found, has the differences of one of this range."""
CLOSE: Final = 1e-3
"""Where answers are further apart, as a share of an output's range, ONNX Runtime is asked how far its own move."""
ROUNDING: Final = 2.0**-20
"""Eight times the last bit of a float32: what sums of some hundred products move in another order."""
OLDEST: Final = 7
"""The first opset that ONNX Runtime takes."""
FACTOR: Final = 4
"""How much further answers may lie: few samples do not find the one that moves most."""
HIGHEST: Final = {"f32": 1.0, "u8": 256.0}
"""Bounds of the elements that a rule makes; of whole numbers 2, which are indices and masks."""
_TYPES: Final = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True)
class Parity:
    """How far answers are from those of ONNX Runtime.

    Attributes:
        samples: that were compared; 0 if none were.
        largest: the largest |answer - ONNX Runtime's|; None if none were compared.
        share: the same as a share of the range of the output over all samples, zero included; the largest over outputs.
        own: where the share is above `CLOSE`, the share by which ONNX Runtime's own answers move when inputs and
            weights change by `ROUNDING`; else None.
        why: why nothing was compared; empty if it was.
    """

    samples: int
    largest: float | None
    share: float | None
    own: float | None = None
    why: str = ""

    @property
    def is_rounding(self) -> bool:
        """Whether ONNX Runtime's own answers move as far."""
        return self.own is not None and self.share is not None and self.share <= FACTOR * self.own


def procedural_inputs(shapes: Sequence[tuple[tuple[int, ...], str]], seed: int) -> tuple[Procedural, ...]:
    """Return inputs that a rule makes: waves in [-1, 1) for tensors of three dimensions and more, else noise.

    Args:
        shapes: shape and element type of each input, as a certificate names it.
        seed: another one, others.
    """
    return tuple(
        Procedural(
            "smooth" if len(shape) > 2 and kind in HIGHEST else "uniform",
            kind,
            shape,
            seed * 16 + index,
            -1.0 if kind == "f32" else 0.0,
            HIGHEST.get(kind, 2.0),
        )
        for index, (shape, kind) in enumerate(shapes)
    )


def compare_with_runtime(
    path: Path,
    names: Sequence[str],
    outputs: Sequence[str],
    samples: Sequence[Arrays],
    run: Run,
    *,
    fixed: Mapping[str, NDArray[Any]] | None = None,
) -> Parity:
    """Compare the answers of `run` with those of ONNX Runtime to the same samples.

    Args:
        path: of the file.
        names: of the inputs, in the order in which samples have them.
        outputs: names of the tensors to compare, in the order in which `run` gives them.
        samples: the inputs.
        run: gives all outputs for a sample.
        fixed: inputs that are the same in all samples, by name.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - optional
    except ImportError as error:
        return Parity(0, None, None, why=f"onnxruntime is not installed ({error})")
    try:
        onnxruntime.set_default_logger_severity(4)
        source = _source(path, outputs)
        theirs = _runner(onnxruntime, source, names, outputs, fixed or {})
        found = _Distances()
        for sample in samples:
            found.add(run(sample), theirs(sample))
        own = None
        if found.share > CLOSE:
            moved = _runner(onnxruntime, _change(source), names, outputs, fixed or {})
            among = _Distances()
            for seed, sample in enumerate(samples):
                among.add(moved(_change_inputs(sample, seed)), theirs(sample))
            own = among.share
    except Exception as error:  # noqa: BLE001 - onnxruntime raises classes of its own for each of its status codes
        words = str(error).strip().partition("\n")[0]
        return Parity(0, None, None, why=f"onnxruntime refuses the file or the inputs ({words})")
    if found.differing:
        return Parity(0, None, None, why=f"shapes differ: {found.differing}")
    return Parity(len(samples), found.largest, found.share, own)


class _Distances:
    """How far answers are apart, over samples."""

    def __init__(self) -> None:
        self.differing = ""
        self._of: dict[int, tuple[float, float, float]] = {}  # difference, least and greatest of each output

    def add(self, mine: Arrays, theirs: Arrays) -> None:
        """Count the answers to one more sample."""
        for index, (own, other) in enumerate(zip(mine, theirs, strict=True)):
            left, right = np.asarray(own, np.float64), np.asarray(other, np.float64)
            if left.shape != right.shape:
                self.differing = f"{list(left.shape)} and {list(right.shape)}"
                continue
            difference, low, high = self._of.get(index, (0.0, 0.0, 0.0))
            self._of[index] = (
                float(np.abs(left - right).max(initial=difference)),
                float(right.min(initial=low)),
                float(right.max(initial=high)),
            )

    @property
    def largest(self) -> float:
        return max((difference for difference, _, _ in self._of.values()), default=0.0)

    @property
    def share(self) -> float:
        return max((difference / max(high - low, FLAT) for difference, low, high in self._of.values()), default=0.0)


def _runner(
    onnxruntime: Any,
    source: str | bytes,
    names: Sequence[str],
    outputs: Sequence[str],
    fixed: Mapping[str, NDArray[Any]],
) -> Run:
    """Return what computes all outputs with ONNX Runtime."""
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    types = {each.name: _TYPES.get(each.type, np.float32) for each in session.get_inputs()}

    def run(sample: Arrays) -> Arrays:
        given = {**fixed, **dict(zip(names, sample, strict=True))}
        feeds: dict[str, NDArray[Any]] = {
            name: given[name].astype(kind) for name, kind in types.items() if name in given
        }
        found: Arrays = session.run(list(outputs), feeds)
        return found

    return run


def _change(source: str | bytes) -> bytes:
    """Return a model whose weights differ in their last bits."""
    model: ModelProto = load(source) if isinstance(source, str) else load_model_from_string(source)
    random = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims):
            array = numpy_helper.to_array(tensor)
            noise = random.uniform(1 - ROUNDING, 1 + ROUNDING, array.shape)
            tensor.CopyFrom(numpy_helper.from_array((array * noise).astype(np.float32), tensor.name))
    return model.SerializeToString()


def _change_inputs(sample: Arrays, seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    return [
        (each * random.uniform(1 - ROUNDING, 1 + ROUNDING, each.shape)).astype(each.dtype)
        if np.issubdtype(each.dtype, np.floating)
        else each
        for each in sample
    ]


def _source(path: Path, outputs: Sequence[str]) -> str | bytes:
    """Return the file, or the bytes of a model with these outputs alone: what they do not need is not run.

    Raises:
        ValueError: the file is of a version that ONNX Runtime does not take.
    """
    model: ModelProto = load(str(path), load_external_data=False)
    there = {each.name: each for each in model.graph.output}
    if opsets_of(model)[""] < OLDEST:
        # The package onnx converts such files, but loses the axis of a broadcast.
        raise ValueError(f"it takes opset {OLDEST} and newer, the file has {opsets_of(model)['']}")
    if set(outputs) == set(there):
        return str(path)
    model = load(str(path))
    known = [each.name for each in model.graph.input] + [each.name for each in model.graph.initializer]
    needed = sort_nodes(model.graph.node, known, outputs)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(needed)
    model.graph.output.extend(there.get(name, ValueInfoProto(name=name)) for name in outputs)
    return model.SerializeToString()
