"""Compares a program with its torch module on samples, and makes its parity certificate."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime.certificate import Sample, certificate_bytes, compare, run_sample
from alcove.runtime.errors import CertificateError
from alcove.runtime.model import Model, load
from numpy.typing import NDArray
from torch import Tensor, nn


def certify(program: bytes, module: nn.Module, samples: Sequence[Sample], licence: str, tolerance: str) -> bytes:
    """Run samples through a module and its program, compare, and return the certificate's bytes.

    Args:
        program: bytes of a program; one with an int8 table differs from its f32 module, unless the module was loaded
            from the program (`load_state`).
        module: in eval mode, as it was exported.
        samples: 1 to 16; none is anyone's data.
        licence: one of `alcove.runtime.certificate.LICENCES`.
        tolerance: a key of `TOLERANCES`, the bound of |native - torch| / max(1, |torch|); labels, integers and
            booleans must be equal.

    Raises:
        CertificateError: a sample is refused or an output differs; names sample, output, bound and value.
        ProgramError: the program's bytes are wrong.
    """
    model = load(bytes(program))
    # The program first: it refuses inputs that don't fit with the errors that devices give.
    native_outputs = [run_sample(model, index, sample.values()) for index, sample in enumerate(samples)]
    torch_outputs = [_torch_outputs(module, model, index, sample) for index, sample in enumerate(samples)]
    names = [port.name for port in model.outputs]
    data = certificate_bytes(samples, torch_outputs, native_outputs, names, licence=licence, tolerance=tolerance)
    for index, (expected_all, native_all) in enumerate(zip(torch_outputs, native_outputs, strict=True)):
        for name, expected, native in zip(names, expected_all, native_all, strict=True):
            compare(index, name, expected, native, tolerance)
    return data


def _torch_outputs(module: nn.Module, model: Model, index: int, sample: Sample) -> list[NDArray[Any]]:
    """Return the module's outputs in the order and the types of the program's ports."""
    with torch.no_grad():
        result = module(*(_argument(value) for value in sample.values()))
    leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    if len(leaves) != len(model.outputs):
        raise CertificateError(
            f"sample {index}: the module gives {len(leaves)} outputs, the program {len(model.outputs)}", sample=index
        )
    return [_as_port(leaf, port.labels) for leaf, port in zip(leaves, model.outputs, strict=True)]


def _argument(value: str | NDArray[Any]) -> Tensor:
    if isinstance(value, str):
        return torch.tensor(list(value.encode("utf-8")), dtype=torch.uint8)
    return torch.from_numpy(np.ascontiguousarray(value))


def _as_port(leaf: Tensor, labels: Sequence[str]) -> NDArray[Any]:
    array: NDArray[Any] = leaf.detach().cpu().numpy()
    return np.array(labels, dtype=np.str_)[array] if labels else array
