"""Certifies imported float32 programs; where rounding alone moves answers far, with a wider tolerance."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from alcove.runtime import load
from alcove.runtime.certificate import Sample, run_sample
from alcove.runtime.compiler.certify import certify
from alcove.runtime.errors import CertificateError
from torch import Tensor, nn
from torch.utils import _pytree as pytree

LAST_BIT: Final = 2.0**-23
"""Of a float32's fraction."""
FACTOR: Final = 8
"""How much more than by one bit of the weights alone: sums of thousands of products round at every step."""


def certify_float32(
    program: bytes, module: nn.Module, samples: Sequence[Sample], licence: str = "procedural"
) -> tuple[bytes, str]:
    """Return the certificate of a program, and the class of its tolerance.

    The class is `standard`, or `loose` where torch's own answers move as far as the program's lie from them when each
    weight is changed in its last bit: such a network has no more digits.

    Args:
        program: bytes of a float32 program.
        module: in eval mode, as it was exported.
        samples: the certificate's.
        licence: of these.

    Raises:
        CertificateError: native and torch differ by more than rounding.
    """
    try:
        return certify(program, module, samples, licence=licence, tolerance="standard"), "standard"
    except CertificateError:
        if not _is_rounding(program, module, samples):
            raise
    return certify(program, module, samples, licence=licence, tolerance="loose"), "loose"


def _is_rounding(program: bytes, module: nn.Module, samples: Sequence[Sample]) -> bool:
    """Return whether a program's answers lie no further from torch's than torch's do from each other."""
    model = load(program)
    expected = [_answers(module, sample) for sample in samples]
    kept = [(parameter, parameter.detach().clone()) for parameter in module.parameters()]
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter, _ in kept:
            if parameter.is_floating_point():
                parameter.mul_(1 + (torch.rand(parameter.shape, generator=random) * 2 - 1) * LAST_BIT)
        try:
            moved = [_answers(module, sample) for sample in samples]
        finally:
            for parameter, before in kept:
                parameter.copy_(before)
    seen = apart = 0.0
    for index, sample in enumerate(samples):
        native = [
            torch.from_numpy(each.copy())
            for each in run_sample(model, index, sample.values())
            if each.dtype.kind == "f"
        ]
        seen = max(seen, *(_distance(a, b) for a, b in zip(expected[index], native, strict=True)), 0.0)
        apart = max(apart, *(_distance(a, b) for a, b in zip(expected[index], moved[index], strict=True)), 0.0)
    return seen <= FACTOR * apart


def _answers(module: nn.Module, sample: Sample) -> list[Tensor]:
    with torch.no_grad():
        found = module(*(_tensor(value) for value in sample.values()))
    return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _tensor(value: Any) -> Tensor:
    if isinstance(value, str):
        return torch.tensor(list(value.encode("utf-8")), dtype=torch.uint8)
    return torch.from_numpy(value.copy())


def _distance(left: Tensor, right: Tensor) -> float:
    """Return the largest |left - right| / max(1, |left|), as certificates count."""
    if left.shape != right.shape:
        return float("inf")
    return float(((left - right).abs() / left.abs().clamp(min=1)).max()) if left.numel() else 0.0
