"""Compares a program with its torch module on samples, and makes its parity certificate."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime.certificate import Sample, certificate_bytes, compare, run_sample
from alcove.runtime.certificate.check import check_methods, method_model
from alcove.runtime.certificate.document import pick_elements
from alcove.runtime.compiler.methods import Method, entry_of
from alcove.runtime.errors import CertificateError
from alcove.runtime.model import Model, load
from numpy.typing import NDArray
from torch import Tensor, nn


def certify(
    program: bytes,
    module: nn.Module | Mapping[str, Method],
    samples: Sequence[Sample],
    licence: str,
    tolerance: str,
) -> bytes:
    """Run samples through a module and its program, compare, and return the certificate's bytes.

    Args:
        program: bytes of a program; one with an int8 table differs from its f32 module, unless the module was loaded
            from the program (`load_state`).
        module: in eval mode, as it was exported; or its methods.  What it keeps from call to call is put back.
        samples: 1 to 16, of each method at least one; none is anyone's data.
        licence: one of `alcove.runtime.certificate.LICENCES`.
        tolerance: a key of `TOLERANCES`, the bound of |native - torch| / max(1, |torch|), or of the output's range;
            labels, integers and booleans must be equal.

    Raises:
        CertificateError: a sample is refused or an output differs; names sample, output, bound and value.
        ProgramError: the program's bytes are wrong.
    """
    model = load(bytes(program))
    # The program first: it refuses inputs that don't fit with the errors that devices give.
    check_methods(model, [sample.method for sample in samples])
    models = [method_model(model, sample.method) for sample in samples]
    native_outputs = [
        run_sample(of_method, index, sample.values())
        for index, (of_method, sample) in enumerate(zip(models, samples, strict=True))
    ]
    torch_outputs = [
        _torch_outputs(_entry(module, sample.method), of_method, index, sample)
        for index, (of_method, sample) in enumerate(zip(models, samples, strict=True))
    ]
    names = [[port.name for port in of_method.outputs] for of_method in models]
    data = certificate_bytes(samples, torch_outputs, native_outputs, names, licence=licence, tolerance=tolerance)
    for index, (names_all, expected_all, native_all) in enumerate(
        zip(names, torch_outputs, native_outputs, strict=True)
    ):
        for name, expected, native in zip(names_all, expected_all, native_all, strict=True):
            compare(index, name, expected, native, tolerance)
            # As a check will: the range of the elements that are kept may be smaller than that of all.
            compare(index, name, pick_elements(expected), pick_elements(native), tolerance)
    return data


def _entry(module: nn.Module | Mapping[str, Method], method: str) -> nn.Module:
    return module if isinstance(module, nn.Module) else entry_of(module[method])


def _torch_outputs(module: nn.Module, model: Model, index: int, sample: Sample) -> list[NDArray[Any]]:
    """Return the module's outputs in the order and the types of the program's ports."""
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    with torch.no_grad():
        result = module(*(_argument(value) for value in sample.values()))
        for buffer, before in kept:
            buffer.copy_(before)
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
