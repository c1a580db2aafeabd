"""Looks into a program's inputs in place: what is an array, whether its numbers are finite, and a copy to keep.

numpy arrays and objects with `__dlpack__` reach the runtime as they are; it reads those that lie row-major where they
are, copies others, and converts no type.  A bare DLPack capsule is consumed once, into an array over the same memory.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from alcove.runtime.errors import InputError
from alcove.runtime.format.spec import DType
from alcove.sdk.engine import Runnable
from numpy.typing import NDArray

__all__ = ["as_inputs", "check_finite", "copy_inputs"]

_CPU: Final = 1
"""DLPack's number of the processor's memory."""


class _Exporter:
    """A capsule as an object that has it; numpy reads the device from the capsule itself."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def as_inputs(frame: Any) -> tuple[Any, ...]:
    """Return a frame as a program's inputs: a tuple is one each, anything else the first; capsules become arrays.

    Raises:
        InputError: a capsule was consumed before, or its memory is not the processor's.
    """
    inputs = frame if isinstance(frame, tuple) else (frame,)
    return tuple(_open_capsule(one) if type(one).__name__ == "PyCapsule" else one for one in inputs)


def _open_capsule(capsule: Any) -> NDArray[Any]:
    try:
        return np.from_dlpack(_Exporter(capsule))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(None, f"expected a capsule of the processor's memory that nobody took: {error}") from None


def check_finite(model: Runnable, inputs: Sequence[Any]) -> None:
    """Refuse numbers that a state would keep for ever.

    Raises:
        InputError: an input of f32 has one that is not finite; names the input, the place and the value.
    """
    for view, value in zip(model.inputs, inputs, strict=False):
        array = _view(value) if view.dtype is DType.F32 else None
        # A view may claim more elements than there is memory; the runtime refuses it.
        if array is None or array.dtype.kind != "f" or array.size > math.prod(view.shape):
            continue
        is_finite = np.isfinite(array)
        if not is_finite.all():
            place = tuple(int(index) for index in np.argwhere(~is_finite)[0])
            raise InputError(
                view.name,
                f"expected finite numbers, got {array[place]} at {list(place)}; a state would keep it "
                "(handle.stream(allow_nan=True) lets it in)",
            )


def copy_inputs(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return inputs that share no memory with these; None where one cannot be read here."""
    copies = []
    for value in inputs:
        array = None if isinstance(value, (str, bytes)) else _view(value)
        if array is None and not isinstance(value, (str, bytes, list, int, float)):
            return None
        copies.append(value if array is None else array.copy())
    return tuple(copies)


def _view(value: Any) -> NDArray[Any] | None:
    """Return an array over the same memory; None for what is none, or cannot be read here."""
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        return None
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError):
        return None  # the runtime says what is wrong with it
