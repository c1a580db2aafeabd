"""Makes examples row-major, as the inputs of a program are.

A program's tensors have no strides, but `x.stride(0)`, `x.is_contiguous()` and `as_strided` tell a module how its
example lies in memory.  Where one lies in another order (a transposed, expanded or sliced view, channels last), the
module is asked in eager mode whether it answers the same for a row-major copy.
"""

import copy
from collections.abc import Sequence
from typing import Final, cast

import torch
import torch.utils._pytree as pytree
from alcove.runtime.errors import ExportError, Finding
from torch import Tensor, nn

_CLOSE: Final = 1e-3
"""Of the largest element: kernels of torch differ by the order of their sums."""
_TELLS: Final = (
    "an example is not contiguous, and forward answers otherwise for a row-major copy of it: a program's inputs are "
    "row-major, so pass x.contiguous() as the example, and leave out what asks for strides"
)


def examples_of(module: nn.Module, args: Sequence[object]) -> tuple[object, ...]:
    """Return copies of `args` to trace `module` with: row-major ones, unless it takes only those as they lie.

    Raises:
        ExportError: the module answers for both, and otherwise for one than for the other.
    """
    row_major = pytree.tree_map(_row_major, tuple(args))
    leaves = [leaf for leaf in pytree.tree_leaves(tuple(args)) if isinstance(leaf, Tensor)]
    if all(leaf.layout is not torch.strided or leaf.is_contiguous() for leaf in leaves):
        return cast("tuple[object, ...]", row_major)
    expected = _answers(module, row_major)
    seen = _answers(module, pytree.tree_map(_as_it_lies, tuple(args)))
    if isinstance(seen, Exception) or isinstance(expected, Exception):
        return cast("tuple[object, ...]", pytree.tree_map(_copy_example, tuple(args)))  # the trace says where it stops
    if len(seen) != len(expected) or not all(map(_is_alike, seen, expected)):
        raise ExportError([Finding(op="strides", module_path="", source="", suggestion=_TELLS)])
    return cast("tuple[object, ...]", row_major)


def _row_major(value: object) -> object:
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return _copy_example(value)
    return value.detach().clone(memory_format=torch.contiguous_format).requires_grad_(value.requires_grad)


def _copy_example(value: object) -> object:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def _as_it_lies(value: object) -> object:
    """Return a copy with the strides of the original, and elements that share memory where it has such."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_contiguous():
        return _row_major(value)
    places = torch.zeros((), dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
        places = places + (torch.arange(size) * stride).reshape([-1 if d == axis else 1 for d in range(value.dim())])
    memory = torch.zeros(int(places.max()) + 1, dtype=value.dtype)
    memory[places.reshape(-1)] = value.detach().reshape(-1)
    return memory.as_strided(value.shape, value.stride())


def _answers(module: nn.Module, args: tuple[object, ...]) -> list[object] | Exception:
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return pytree.tree_leaves(copy.deepcopy(module)(*args))
    except Exception as error:  # noqa: BLE001 - whatever the module raises is the answer
        return error


def _is_alike(one: object, other: object) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape or not other.is_floating_point():
        return one.shape == other.shape and torch.equal(one, other)
    largest = float(other.nan_to_num().abs().max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=_CLOSE, atol=_CLOSE * largest, equal_nan=True)
