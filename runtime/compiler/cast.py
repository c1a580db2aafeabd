"""Casts a module of another floating type to float32, for an export that asks for it.

A program computes in float32.  The program of a module in half, bfloat16 or double is that of the same module with its
parameters, buffers and inputs as float32: its numbers differ from the module's by the rounding of the coarser type.
Weights of 16 bits are stored in 16 bits, which loses nothing.
"""

import copy
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime.compiler.checks import check_arguments
from alcove.runtime.errors import ArgumentError
from alcove.runtime.format.spec import DType
from torch import Tensor, nn

FLOAT32: Final = "float32"
"""The one type that a program computes in."""

_HALVES: Final = {torch.float16: DType.F16, torch.bfloat16: DType.BF16}

CAST_ADVICE: Final = 'export it as float32, which is another rounding: export(..., cast="float32"), --cast float32'


def cast_all(kind: str | None, module: nn.Module, args: Sequence[object], samples: Any) -> tuple[nn.Module, Any, Any]:
    """Return module, example arguments and samples in the type that `kind` names; as they are for None.

    Raises:
        ValueError: it is not "float32".
        ArgumentError: they are none, or the module cannot be copied.
    """
    if kind is None:
        return module, args, samples
    check_arguments(module, args)
    if kind != FLOAT32:
        raise ValueError(f"cast must be None or {FLOAT32!r}, not {kind!r}")
    return cast_module(module), cast_inputs(args), cast_samples(samples)


def half_type(module: object) -> DType | None:
    """Return the type of 16 bits that a module's parameters have; None if they have another, or two of them."""
    kinds = {parameter.dtype for parameter in module.parameters()} if isinstance(module, nn.Module) else set()
    return _HALVES.get(kinds.pop()) if len(kinds) == 1 else None


def cast_module(module: nn.Module) -> nn.Module:
    """Return a copy of `module` with floating parameters and buffers in float32.

    Raises:
        ArgumentError: it cannot be copied.
    """
    try:
        return copy.deepcopy(module).float()
    except Exception as error:  # whatever a user's own copy raises
        raise ArgumentError(
            f"the module cannot be copied to be cast ({error}); call module.float() yourself"
        ) from error


def cast_inputs(inputs: Any) -> Any:
    """Return `inputs`, tensors and arrays in tuples, lists and dictionaries, with floating ones in float32."""
    return pytree.tree_map(_cast, inputs)


def cast_samples(samples: Any) -> Any:
    """Return a sequence of samples with floating tensors and arrays in float32; anything else as it is."""
    is_many = isinstance(samples, Sequence) and not isinstance(samples, str)
    return [cast_inputs(sample) for sample in samples] if is_many else samples


def _cast(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(torch.float32) if value.dtype.is_floating_point else value
    if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating):
        return value.astype(np.float32)
    return value
