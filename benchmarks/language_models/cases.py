"""Lists what is timed, and makes the programs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from alcove.runtime import Method, export
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import ProgramSpec

from benchmarks.language_models.limits import LENGTHS, file_stem
from benchmarks.language_models.models import make_model

MODES: Final = (None, "int8_dynamic", "int4_dynamic")


@dataclass(frozen=True)
class Built:
    """A method of a program.

    Attributes:
        path: where the program lies.
        entry: the method, "prefill" or "decode".
        weight_bytes: of the weights of products, each of which a call reads once at least.
        products: multiply-adds with weights that a call does.
    """

    path: Path
    entry: str
    weight_bytes: int
    products: int


def build(name: str, mode: str | None, folder: Path, say: Callable[[str], None]) -> list[Built]:
    """Export a model with a method for prompts and one for single tokens, if the folder has no such program."""
    path = folder / f"{file_stem(name)}.{mode or 'float32'}.alc"
    if not path.exists():
        model = make_model(name)
        methods = {
            entry: Method(model, (torch.zeros(1, length, dtype=torch.int64),)) for entry, length in LENGTHS.items()
        }
        export(methods, quantize=mode, progress=say).save(path)
    return [_describe(path, spec) for spec in read_spec(path.read_bytes()).methods]


def _describe(path: Path, spec: ProgramSpec) -> Built:
    products = [op for op in spec.ops if op.name.startswith("linear")]
    weights = {op.inputs[1]: len(spec.tensors[op.inputs[1]].data) for op in products}
    sizes = [(spec.tensors[op.inputs[0]].shape[-1], spec.tensors[op.outputs[0]].shape) for op in products]
    multiply_adds = sum(inputs * math.prod(shape) for inputs, shape in sizes)
    return Built(path, spec.method, sum(weights.values()), multiply_adds)
