"""Compares answers with those of ONNX Runtime, if it is installed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.runtime.certificate import Procedural
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto, load

Arrays = Sequence[NDArray[Any]]
Run = Callable[[Arrays], Arrays]

FLAT: Final = 1e-3
"""An output of less range, such as a map in which nothing is found, has the differences of one of this range."""
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
        share: the same as a share of the range of the output, the largest over outputs and samples.
        why: why nothing was compared; empty if it was.
    """

    samples: int
    largest: float | None
    share: float | None
    why: str = ""


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
        return Parity(0, None, None, f"onnxruntime is not installed ({error})")
    try:
        onnxruntime.set_default_logger_severity(4)
        session = onnxruntime.InferenceSession(_source(path, outputs), providers=["CPUExecutionProvider"])
        types = {each.name: _TYPES.get(each.type, np.float32) for each in session.get_inputs()}
        largest = share = 0.0
        for sample in samples:
            given = {**(fixed or {}), **dict(zip(names, sample, strict=True))}
            feeds: dict[str, NDArray[Any]] = {
                name: given[name].astype(kind) for name, kind in types.items() if name in given
            }
            for own, other in zip(run(sample), session.run(list(outputs), feeds), strict=True):
                left, right = np.asarray(own, np.float64), np.asarray(other, np.float64)
                if left.shape != right.shape:
                    return Parity(0, None, None, f"shapes differ: {list(left.shape)} and {list(right.shape)}")
                difference = float(np.abs(left - right).max(initial=0.0))
                largest = max(largest, difference)
                span = float(np.ptp(right)) if right.size else 0.0
                share = max(share, difference / max(span, FLAT))
    except Exception as error:  # noqa: BLE001 - onnxruntime raises classes of its own for each of its status codes
        words = str(error).strip().partition("\n")[0]
        return Parity(0, None, None, f"onnxruntime refuses the file or the inputs ({words})")
    return Parity(len(samples), largest, share)


def _source(path: Path, outputs: Sequence[str]) -> str | bytes:
    """Return the file, or its bytes with further outputs."""
    model: ModelProto = load(str(path), load_external_data=False)
    there = {each.name for each in model.graph.output}
    if set(outputs) <= there:
        return str(path)
    model = load(str(path))
    model.graph.output.extend(ValueInfoProto(name=name) for name in outputs if name not in there)
    return model.SerializeToString()
