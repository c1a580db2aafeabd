"""Converts constants between float32 and the types of 16 bits that a file may hold them in, losslessly."""

from dataclasses import replace
from typing import Final

import numpy as np
from alcove.runtime.format.spec import HALVES, DType, ProgramSpec, Storage, TensorSpec
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_LEAST_BYTES: Final = 65
"""Each constant begins on a multiple of 64: what is shorter is no smaller in 16 bits."""
_NAN: Final = np.uint32(0x7FC00000)


def round_to(values: Floats, dtype: DType) -> Floats:
    """Return `values` rounded to nearest even in F16 or BF16, as float32; too large ones become infinite.

    A NaN becomes the canonical one.
    """
    return widen(narrow(values, dtype), dtype)


def narrow(values: Floats, dtype: DType) -> NDArray[np.uint16]:
    """Return the bits of `values` in F16 or BF16, rounded to nearest even."""
    with np.errstate(over="ignore", under="ignore"):
        if dtype is DType.F16:
            half: NDArray[np.uint16] = np.where(np.isnan(values), np.float16("nan"), values.astype("<f2")).view("<u2")
            return half
    bits = np.ascontiguousarray(values, "<f4").view("<u4").astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype("<u2")


def widen(halves: NDArray[np.uint16], dtype: DType) -> Floats:
    """Return what bits in F16 or BF16 stand for; every NaN is the canonical one."""
    if dtype is DType.F16:
        floats = np.ascontiguousarray(halves).view("<f2").astype("<f4")
    else:
        floats = (halves.astype("<u4") << 16).view("<f4")
    return np.where(np.isnan(floats), _NAN.view("<f4"), floats).astype("<f4")


def widen_constant(tensor: TensorSpec) -> TensorSpec:
    """Return a constant as operators see it: one of 16 bits as float32, any other as it is."""
    if tensor.dtype not in HALVES:
        return tensor
    floats = widen(np.frombuffer(tensor.data, "<u2"), tensor.dtype)
    return replace(tensor, dtype=DType.F32, data=floats.tobytes())


def narrow_constant(tensor: TensorSpec, dtype: DType) -> TensorSpec:
    """Return a float32 constant in F16 or BF16 if that keeps every bit of it and is smaller; else as it is."""
    is_float = tensor.storage is Storage.CONSTANT and tensor.dtype is DType.F32
    if not is_float or len(tensor.data) < _LEAST_BYTES:
        return tensor
    floats = np.frombuffer(tensor.data, "<f4")
    halves = narrow(floats, dtype)
    if not np.array_equal(widen(halves, dtype).view("<u4"), floats.view("<u4")):
        return tensor
    return replace(tensor, dtype=dtype, data=halves.tobytes())


def narrow_constants(spec: ProgramSpec, dtype: DType) -> ProgramSpec:
    """Return the program with the constants of one method in F16 or BF16 that lose nothing by it."""
    return replace(spec, tensors=tuple(narrow_constant(tensor, dtype) for tensor in spec.tensors))


def widen_constants(spec: ProgramSpec) -> ProgramSpec:
    """Return the program, all methods, with float32 in place of 16 bits: it gives the same bits."""
    others = tuple(widen_constants(other) for other in spec.others)
    return replace(spec, tensors=tuple(widen_constant(tensor) for tensor in spec.tensors), others=others)
