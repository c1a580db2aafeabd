"""Lists what is timed, and makes the programs."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from alcove.runtime import export
from alcove.runtime.format.reader import read_spec

from benchmarks.language_models.models import make_model

MODES: Final = (None, "int8_dynamic", "int4_dynamic")
PROMPT: Final = 128
"""Tokens of a prompt."""
LENGTHS: Final = {"prefill": PROMPT, "decode": 1}


@dataclass(frozen=True)
class Built:
    """A program.

    Attributes:
        path: where it lies.
        entry: "prefill" or "decode".
        weight_bytes: of the weights of products, each of which a call reads once at least.
        products: multiply-adds with weights that a call does.
    """

    path: Path
    entry: str
    weight_bytes: int
    products: int


def build(name: str, mode: str | None, folder: Path) -> list[Built]:
    """Export a model for prompts and for single tokens, but for programs that lie in the folder."""
    programs = []
    for entry, length in LENGTHS.items():
        path = folder / f"{name.split(maxsplit=1)[0]}.{mode or 'float32'}.{entry}.alc"
        if not path.exists():
            export(make_model(name), (torch.zeros(1, length, dtype=torch.int64),), quantize=mode).save(path)
        spec = read_spec(path.read_bytes())
        products = [op for op in spec.ops if op.name.startswith("linear")]
        weights = {op.inputs[1]: len(spec.tensors[op.inputs[1]].data) for op in products}
        sizes = [(spec.tensors[op.inputs[0]].shape[-1], spec.tensors[op.outputs[0]].shape) for op in products]
        multiply_adds = sum(inputs * math.prod(shape) for inputs, shape in sizes)
        programs.append(Built(path, entry, sum(weights.values()), multiply_adds))
    return programs
